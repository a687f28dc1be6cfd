package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// API is what a daemon answers over its socket. Its functions run in parallel, and their context ends with the daemon, and when the client
// goes away. One that is nil is a question that the daemon does not know.
type API struct {
	Status func(context.Context) Status
	Query  func(context.Context, Question) (Answer, error)
	Search func(context.Context, SearchQuestion) (Search, error)
	// LogQueries turns the logging of queries on or off.
	LogQueries func(context.Context, LogQueriesQuestion) (LogQueries, error)
	// Monitor tells of what goes on until the context ends or the client has gone.
	Monitor func(ctx context.Context, filter MonitorFilter, send func(MonitorEvent) error, flush func() error) error

	ServerHistory func(context.Context) ServerHistory
	// SlowNames has all names that were slow recently.
	SlowNames func(context.Context) SlowNames

	CacheDump  func(ctx context.Context, part CachePart, send func(CacheEntry) error) error
	CacheFlush func(context.Context, CachePart) (CacheFlushed, error)
	CacheStats func(context.Context) CacheStats
	// RecentNames are a few of the names that clients asked for recently.
	RecentNames func(context.Context) RecentNames

	Complete func(context.Context, CompleteQuestion) (Completions, error)

	// Panicked hears what a function panicked with; who asked sees the connection end. Nil: nobody does.
	Panicked func(value any)
}

// maxQuestion bounds in octets what a client says when it asks.
const maxQuestion = 64 << 10

// MistakeError is a fault of the question, and not of the daemon: who asked is told so, and its exit code is that of a usage error.
type MistakeError struct{ Why string }

func (e MistakeError) Error() string { return e.Why }

// refusal is what is sent in place of an answer.
type refusal struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"` // Error
	Error      string `json:"error"`
}

// verb is a question, and who may ask it.
type verb struct {
	pattern string // of http.ServeMux
	level   level
	answer  http.Handler // nil: the daemon does not know the question
}

// verbs are all of them. What changes something, or shows what other clients ask, is for admins.
func (api API) verbs() []verb {
	return []verb{
		{"GET " + statusPath, anyone, tell(api.status())},
		{"GET " + serverHistoryPath, anyone, tell(api.ServerHistory)},
		{"GET " + cacheStatsPath, anyone, tell(spare(api.CacheStats))},
		{"GET " + recentNamesPath, admin, tell(api.RecentNames)},
		{"POST " + queryPath, anyone, handle(api.queryFor())},
		{"POST " + searchPath, anyone, handle(api.searchFor())},
		{"GET " + slowPath, admin, tell(api.SlowNames)},
		{"POST " + cacheDumpPath, admin, stream(unflushed(api.CacheDump))},
		{"POST " + cacheFlushPath, admin, handle(api.CacheFlush)},
		{"POST " + completePath, admin, handle(api.Complete)},
		{"POST " + logQueriesPath, admin, handle(api.LogQueries)},
		{"POST " + monitorPath, admin, stream(api.Monitor)},
	}
}

// status is Status, which names clients, and names that they ask for, to admins alone.
func (api API) status() func(context.Context) Status {
	if api.Status == nil {
		return nil
	}
	answer := spare(api.Status)
	return func(ctx context.Context) Status {
		s := answer(ctx)
		if isGuest(ctx) {
			s.Hidden = hiddenFromGuests
			s.SlowNames = nil
			l := &s.Queries.Limits
			l.Crowder, l.CrowderPod, l.Stranger, l.StrangerPod = "", "", "", ""
		}
		return s
	}
}

// queryFor is Query, but for admins alone where it shows how another client is served, or has nameservers asked that need not be.
func (api API) queryFor() func(context.Context, Question) (Answer, error) {
	if api.Query == nil {
		return nil
	}
	return func(ctx context.Context, question Question) (Answer, error) {
		if question.As != "" || question.Fresh {
			if err := mayAsk(ctx, admin); err != nil {
				return Answer{}, err
			}
		}
		return api.Query(ctx, question)
	}
}

// searchFor is Search, but for admins alone where the Kubernetes API is asked for a pod, which takes the node's credentials.
func (api API) searchFor() func(context.Context, SearchQuestion) (Search, error) {
	if api.Search == nil {
		return nil
	}
	return func(ctx context.Context, question SearchQuestion) (Search, error) {
		if question.Pod != "" || question.As != "" {
			if err := mayAsk(ctx, admin); err != nil {
				return Search{}, err
			}
		}
		return api.Search(ctx, question)
	}
}

func (api API) handler() http.Handler {
	mux := http.NewServeMux()
	for _, v := range api.verbs() {
		if v.answer != nil {
			mux.Handle(v.pattern, guarded(v.level, v.answer))
		}
	}
	return Guard(new(turnstile).handler(mux), api.Panicked)
}

// Guard keeps a panic from ending more than its connection. panicked hears of it; nil: nobody does.
func Guard(next http.Handler, panicked func(value any)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if value := recover(); value != nil {
				if panicked != nil && value != http.ErrAbortHandler { // which cuts a stream
					panicked(value)
				}
				panic(http.ErrAbortHandler) // which net/http takes, and says nothing of
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// tell answers a question without words. It returns nil if answer is nil.
func tell[A any](answer func(context.Context) A) http.Handler {
	if answer == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reply(w, answer(r.Context()), nil) })
}

// handle answers a question of type Q, which travels in the body as JSON, with what answer makes of it. It returns nil if
// answer is nil.
func handle[Q, A any](answer func(context.Context, Q) (A, error)) http.Handler {
	if answer == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var question Q
		if err := readQuestion(w, r, &question); err != nil {
			reply(w, nil, err)
			return
		}
		value, err := answer(r.Context(), question)
		reply(w, value, err)
	})
}

// readQuestion reads a question into what question points to. Without words it stays zero.
func readQuestion(w http.ResponseWriter, r *http.Request, question any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion))
	decoder.DisallowUnknownFields() // of a newer client: it would not get what it asked for
	if err := decoder.Decode(question); err != nil && !errors.Is(err, io.EOF) {
		return MistakeError{unreadable(err)}
	}
	return nil
}

// unreadable says why a question cannot be read.
func unreadable(err error) string {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return fmt.Sprintf("the question is longer than %d bytes", tooLarge.Limit)
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return "the daemon does not know " + field + " in a question: it is of an older version than this program"
	}
	return "the daemon cannot read the question: it is of another version than this program"
}

// reply sends the value, or why there is none. A client that went away needs neither.
func reply(w http.ResponseWriter, value any, err error) {
	w.Header().Set("Content-Type", "application/json")
	var mistake MistakeError
	switch {
	case errors.As(err, &mistake):
		w.WriteHeader(http.StatusBadRequest)
	case errors.Is(err, os.ErrNotExist):
		w.WriteHeader(http.StatusGone) // 404 is of a path that is not known
	case errors.Is(err, errNotAdmin):
		w.WriteHeader(http.StatusForbidden)
	case errors.Is(err, ErrBusy):
		w.WriteHeader(http.StatusServiceUnavailable)
	case err != nil:
		w.WriteHeader(http.StatusInternalServerError)
	}
	if err != nil {
		value = refusal{APIVersion: APIVersion, Kind: "Error", Error: err.Error()}
	}
	_ = json.NewEncoder(w).Encode(value) // fails where the client has gone
}
