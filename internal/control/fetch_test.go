package control

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestStrangeAnswers: somebody else's socket, or a daemon of another time.
func TestStrangeAnswers(t *testing.T) {
	tests := map[string]struct {
		answer http.HandlerFunc
		err    string
	}{
		"another server":  {http.NotFound, "it said 404 Not Found"},
		"no JSON":         {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, "reading node-dns's status"},
		"an empty answer": {func(http.ResponseWriter, *http.Request) {}, "reading node-dns's status: EOF"},
		"another type":    {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"pid": "x"}`) }, "reading node-dns's status"},
		"an endless one": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"version": "`+strings.Repeat("x", maxStatus)+`"}`)
		}, "unexpected EOF"},
		"a broken one":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "asking node-dns"},
		"a later version":  {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"pid": 7, "new": [1]}`) }, ""},
		"only what it has": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"pid": 7}`) }, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			listener, err := Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewUnstartedServer(test.answer)
			server.Listener.Close()
			server.Listener = listener
			server.Start()
			defer server.Close()
			s, err := FetchStatus(t.Context(), path)
			if test.err == "" {
				if err != nil || s.PID != 7 {
					t.Errorf("%d: %v", s.PID, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
}

// TestOtherRequests: the socket shows the status, and takes no orders.
func TestOtherRequests(t *testing.T) {
	mux := handler(func(context.Context) Status { return Status{PID: 7} })
	for request, want := range map[string]int{
		"GET /v1/status": 200, "HEAD /v1/status": 200, "POST /v1/status": 405, "GET /": 404, "GET /v1/": 404, "DELETE /v1/status": 405,
	} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", request, w.Code, want)
		}
	}
}
