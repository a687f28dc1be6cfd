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

// API holds the functions that answer requests on the control socket. They are called concurrently.
// Their context ends when the daemon stops or the client disconnects. If a function is nil, the
// daemon does not support that request.
type API struct {
	Status func(context.Context) Status
	Query  func(context.Context, Question) (Answer, error)
	Search func(context.Context, SearchQuestion) (Search, error)
	// LogQueries turns the logging of queries on or off.
	LogQueries func(context.Context, LogQueriesQuestion) (LogQueries, error)
	// Monitor sends events until the context ends or the client disconnects.
	Monitor func(ctx context.Context, filter MonitorFilter, send func(MonitorEvent) error, flush func() error) error

	ServerHistory func(context.Context) ServerHistory
	// SlowNames returns all recently slow names.
	SlowNames func(context.Context) SlowNames

	CacheDump  func(ctx context.Context, part CachePart, send func(CacheEntry) error) error
	CacheFlush func(context.Context, CachePart) (CacheFlushed, error)
	CacheStats func(context.Context) CacheStats
	// RecentNames returns a few of the names that clients recently queried.
	RecentNames func(context.Context) RecentNames

	Complete func(context.Context, CompleteQuestion) (Completions, error)

	// Panicked is called with the value of a panic in one of the functions, whose client sees the
	// connection close. nil disables it.
	Panicked func(value any)
}

// maxQuestion limits the request body, in bytes.
const maxQuestion = 64 << 10

// MistakeError reports an error in the question, not in the daemon. The client prints it and exits
// with the code of a usage error.
type MistakeError struct{ Why string }

func (e MistakeError) Error() string { return e.Why }

// refusal is the response body that replaces an answer.
type refusal struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"` // Error
	Error      string `json:"error"`
}

// verb is a request that the daemon supports.
type verb struct {
	pattern string       // for http.ServeMux
	level   level        // minimum level of the caller
	answer  http.Handler // nil if the daemon does not support it
}

// verbs returns all requests. Those that change something or reveal other clients' queries are for
// admins.
func (api API) verbs() []verb {
	return []verb{
		{"GET " + statusPath, anyone, tell(api.status())},
		{"GET " + serverHistoryPath, anyone, tell(api.ServerHistory)},
		{"GET " + cacheStatsPath, anyone, tell(spare(api.CacheStats))},
		{"GET " + recentNamesPath, admin, tell(api.RecentNames)},
		// Only admins may see how another client is served, or bypass the cache to make upstream
		// servers answer.
		{"POST " + queryPath, anyone, handle(limited(api.Query, func(q Question) bool { return q.As != "" || q.Fresh }))},
		// Only admins may ask about a pod, because that uses the node's credentials for the
		// Kubernetes API.
		{"POST " + searchPath, anyone, handle(limited(api.Search, func(q SearchQuestion) bool { return q.Pod != "" || q.As != "" }))},
		{"GET " + slowPath, admin, tell(api.SlowNames)},
		{"POST " + cacheDumpPath, admin, stream(unflushed(api.CacheDump))},
		{"POST " + cacheFlushPath, admin, handle(api.CacheFlush)},
		{"POST " + completePath, admin, handle(api.Complete)},
		{"POST " + logQueriesPath, admin, handle(api.LogQueries)},
		{"POST " + monitorPath, admin, stream(api.Monitor)},
	}
}

// status wraps Status. For guests it removes clients and the names they query.
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
			if s.LastMinute != nil {
				shown := *s.LastMinute // guests share the answer
				shown.Clients, shown.Reasons = nil, nil
				s.LastMinute = &shown
			}
			l := &s.Queries.Limits
			l.Crowder, l.CrowderPod, l.Stranger, l.StrangerPod = "", "", "", ""
		}
		return s
	}
}

// limited wraps answer: questions for which isForAdmins reports true are for admins. It returns nil
// if answer is nil.
func limited[Q, A any](answer func(context.Context, Q) (A, error), isForAdmins func(Q) bool) func(context.Context, Q) (A, error) {
	if answer == nil {
		return nil
	}
	return func(ctx context.Context, question Q) (none A, err error) {
		if isForAdmins(question) {
			if err := mayAsk(ctx, admin); err != nil {
				return none, err
			}
		}
		return answer(ctx, question)
	}
}

func (api API) handler() http.Handler {
	mux := http.NewServeMux()
	for _, v := range api.verbs() {
		if v.answer != nil {
			mux.Handle(v.pattern, guarded(v.level, v.answer))
		}
	}
	return Guard(new(guestLimiter).handler(mux), api.Panicked)
}

// Guard limits a panic in next to its connection and passes the value to panicked, which may be
// nil.
func Guard(next http.Handler, panicked func(value any)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if value := recover(); value != nil {
				if panicked != nil && value != http.ErrAbortHandler { // http.ErrAbortHandler only cuts a stream
					panicked(value)
				}
				panic(http.ErrAbortHandler) // net/http recovers it without logging
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// tell answers a request without a body. It returns nil if answer is nil.
func tell[A any](answer func(context.Context) A) http.Handler {
	if answer == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reply(w, answer(r.Context()), nil) })
}

// handle decodes a question of type Q from the JSON body and replies with the result of answer. It
// returns nil if answer is nil.
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

// readQuestion decodes the request body into question. An empty body leaves it unchanged.
func readQuestion(w http.ResponseWriter, r *http.Request, question any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion))
	decoder.DisallowUnknownFields() // a newer client would otherwise get an answer to a different question
	if err := decoder.Decode(question); err != nil && !errors.Is(err, io.EOF) {
		return MistakeError{unreadable(err)}
	}
	return nil
}

// unreadable describes why a question cannot be decoded.
func unreadable(err error) string {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return fmt.Sprintf("the request is longer than %d bytes", tooLarge.Limit)
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return "the running daemon is older than this program and does not know the field " + field + `; run "systemctl restart node-dns"`
	}
	return "the daemon cannot read the request: its version differs from this program's"
}

// reply sends value, or an error response if err is set. It ignores write errors because the client
// may have disconnected.
func reply(w http.ResponseWriter, value any, err error) {
	w.Header().Set("Content-Type", "application/json")
	var mistake MistakeError
	switch {
	case errors.As(err, &mistake):
		w.WriteHeader(http.StatusBadRequest)
	case errors.Is(err, os.ErrNotExist):
		w.WriteHeader(http.StatusGone) // 404 means that the path is unknown
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
	_ = json.NewEncoder(w).Encode(value) // fails if the client has disconnected
}
