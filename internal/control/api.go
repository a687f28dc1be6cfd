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
		mux.HandleFunc("GET "+statusPath, func(w http.ResponseWriter, r *http.Request) { reply(w, api.Status(r.Context()), nil) })
	}
	return api.guard(mux)
}

// guard keeps a panic from ending more than its connection.
func (api API) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if value := recover(); value != nil {
				if api.Panicked != nil {
					api.Panicked(value)
				}
				panic(http.ErrAbortHandler) // which net/http takes, and says nothing of
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// handle answers a question of type Q, which travels in the body as JSON, with what answer makes of it.
func handle[Q, A any](answer func(context.Context, Q) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var question Q
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion))
		decoder.DisallowUnknownFields() // of a newer client: it would not get what it asked for
		if err := decoder.Decode(&question); err != nil && !errors.Is(err, io.EOF) {
			reply(w, nil, MistakeError{"reading the question: " + err.Error()})
			return
		}
		value, err := answer(r.Context(), question)
		reply(w, value, err)
	}
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
	case err != nil:
		w.WriteHeader(http.StatusInternalServerError)
	}
	if err != nil {
		value = refusal{APIVersion: APIVersion, Kind: "Error", Error: err.Error()}
	}
	_ = json.NewEncoder(w).Encode(value)
}
