package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// TestStrangeAnswers: the socket belongs to another program, or the daemon is of another version.
func TestStrangeAnswers(t *testing.T) {
	tests := map[string]struct {
		answer http.HandlerFunc
		err    string
	}{
		"another server":  {http.NotFound, "does not support this request: its version differs"},
		"no JSON":         {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, "does not answer in a form that this program understands"},
		"an empty answer": {func(http.ResponseWriter, *http.Request) {}, "does not answer: it closed the connection"},
		"another type":    {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"pid": "x"}`) }, "does not answer in a form that this program understands"},
		"an endless one": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"version": "`+strings.Repeat("x", maxAnswer)+`"}`)
		}, "it closed the connection"},
		"a broken one": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "does not answer: it closed the connection"},
		// The message once did not explain the limit that a user with six parallel queries reaches.
		"too many connections":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "Try again; a user who is neither root nor in the group node-dns-admin gets 4 connections at once, 12 more wait up to 30s, and query uses 2"},
		"a later version":         {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"pid": 7, "new": [1]}`) }, ""},
		"only supported requests": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"pid": 7}`) }, ""},
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
					t.Errorf("got PID %d: %v", s.PID, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
}

// TestOtherRequests proves that the status cannot be written and that unknown paths are refused.
func TestOtherRequests(t *testing.T) {
	mux := API{Status: func(context.Context) Status { return Status{PID: 7} }}.handler()
	for request, want := range map[string]int{
		"GET /v1/status": 200, "HEAD /v1/status": 200, "POST /v1/status": 405, "GET /": 404, "GET /v1/": 404, "DELETE /v1/status": 405,
	} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Code != want {
			t.Errorf("%s: got status %d, want %d", request, w.Code, want)
		}
	}
}

// TestPanickingAnswer proves that a panic ends only its connection without a log from net/http, and
// is reported to Panicked.
func TestPanickingAnswer(t *testing.T) {
	told := any(nil)
	api := API{Status: func(context.Context) Status { panic("out of cheese") }, Panicked: func(value any) { told = value }}
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) || told != "out of cheese" {
			t.Errorf("net/http got %v, Panicked got %v", err, told)
		}
	}()
	api.handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", statusPath, nil))
}

// TestQuestions proves that the body of a question arrives and that each kind of refusal has its
// own error.
func TestQuestions(t *testing.T) {
	type text struct{ Text string }
	path := socketPath(t)
	listener, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handle(func(_ context.Context, q text) (text, error) {
		switch q.Text {
		case "mistake":
			return q, MistakeError{"expected a name"}
		case "gone":
			return q, fmt.Errorf("no entry: %w", os.ErrNotExist)
		case "fault":
			return q, errors.New("out of cheese")
		}
		return text{strings.ToUpper(q.Text)}, nil
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	defer server.Close()
	for _, test := range []struct {
		question any
		want     text
		err      string
		mistake  bool
	}{
		{question: text{"x"}, want: text{"X"}},
		{question: nil},
		{question: text{"mistake"}, err: "expected a name", mistake: true},
		{question: text{"gone"}, err: "node-dns reports: no entry: file does not exist"},
		{question: text{"fault"}, err: "node-dns reports: out of cheese"},
		{question: struct{ New int }{1}, err: `the running daemon is older than this program and does not know the field "New"; run "systemctl restart node-dns"`, mistake: true},
		{question: text{strings.Repeat("x", maxQuestion)}, err: "the request is longer than 65536 bytes", mistake: true},
	} {
		got, err := ask[text](t.Context(), path, "/", test.question)
		var mistake MistakeError
		if said := fmt.Sprint(err); err != nil && said != test.err || (err != nil) != (test.err != "") || errors.As(err, &mistake) != test.mistake || err == nil && got != test.want {
			t.Errorf("%.40v: got %v, %v", test.question, got, err)
		}
	}
}
