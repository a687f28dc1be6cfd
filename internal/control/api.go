package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
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

	CacheDump  func(ctx context.Context, part CachePart, send func(CacheEntry) error) error
	CacheFlush func(context.Context, CachePart) (CacheFlushed, error)
	CacheStats func(context.Context) CacheStats

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

func (api API) handler() http.Handler {
	mux := http.NewServeMux()
	if api.Status != nil {
		mux.HandleFunc("GET "+statusPath, tell(api.Status))
	}
	if api.ServerHistory != nil {
		mux.HandleFunc("GET "+serverHistoryPath, tell(api.ServerHistory))
	}
	if api.CacheDump != nil {
		mux.HandleFunc("POST "+cacheDumpPath, stream(func(ctx context.Context, part CachePart, send func(CacheEntry) error, _ func() error) error {
			return api.CacheDump(ctx, part, send)
		}))
	}
	if api.CacheFlush != nil {
		mux.HandleFunc("POST "+cacheFlushPath, handle(api.CacheFlush))
	}
	if api.CacheStats != nil {
		mux.HandleFunc("GET "+cacheStatsPath, tell(api.CacheStats))
	}
	if api.Query != nil {
		mux.HandleFunc("POST "+queryPath, handle(api.Query))
	}
	if api.Search != nil {
		mux.HandleFunc("POST "+searchPath, handle(api.Search))
	}
	if api.LogQueries != nil {
		mux.HandleFunc("POST "+logQueriesPath, handle(api.LogQueries))
	}
	if api.Monitor != nil {
		mux.HandleFunc("POST "+monitorPath, stream(api.Monitor))
	}
	return Guard(mux, api.Panicked)
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

// tell answers a question without words.
func tell[A any](answer func(context.Context) A) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { reply(w, answer(r.Context()), nil) }
}

// handle answers a question of type Q, which travels in the body as JSON, with what answer makes of it.
func handle[Q, A any](answer func(context.Context, Q) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var question Q
		if err := readQuestion(w, r, &question); err != nil {
			reply(w, nil, err)
			return
		}
		value, err := answer(r.Context(), question)
		reply(w, value, err)
	}
}

// readQuestion reads a question into what question points to. Without words it stays zero.
func readQuestion(w http.ResponseWriter, r *http.Request, question any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion))
	decoder.DisallowUnknownFields() // of a newer client: it would not get what it asked for
	if err := decoder.Decode(question); err != nil && !errors.Is(err, io.EOF) {
		return MistakeError{"reading the question: " + err.Error()}
	}
	return nil
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
