// Package kubetest provides a Kubernetes API server for tests. It lists and watches objects that
// the test applies, in protobuf and JSON, with resourceVersions, bookmarks and configurable faults.
//
// It is separate from the tests with a real kube-apiserver, which check that the watcher
// understands real messages: no real server loses an event, cuts one off, or is restored to last
// week on request. It encodes with the types of k8s.io/api, which the watcher does not use.
package kubetest

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TB is the part of testing.TB that this package uses.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Server is an API server. Its zero value is not usable. Its methods may be called concurrently,
// even while it serves.
type Server struct {
	bookmarkEvery time.Duration

	mu        sync.Mutex // guards the fields below
	version   uint64
	shelves   map[resource]*shelf
	changed   chan struct{} // closed at the next change that concerns watches
	dropped   chan struct{} // closed to end the watches
	cut       chan struct{} // closed to end them within an event
	faults    Faults
	met       int // requests that faults were applied to
	denied    map[string]bool
	token     string
	old       bool
	imports   bool
	openShift bool

	silentImports int
	requests      []Request
	sent          int64
	listener      *httptest.Server // nil if it does not listen
}

// shelf holds the objects of one resource.
type shelf struct {
	objects map[string]*object // by namespace/name
	history []change
	oldest  uint64 // a watch from an earlier version is 410 Gone
}

// change is an event before any selector applies.
type change struct {
	version  uint64
	was, now *object // nil if it did not or does not exist
	lost     bool    // no watch reports it
}

// Request is a received request.
type Request struct {
	Path    string // path without the query parameters below
	Watch   bool
	Version string // resourceVersion
	Labels  string // labelSelector
	Fields  string // fieldSelector
	Limit   string
	Agent   string // User-Agent
}

// New returns a Server that does not listen. It is an http.Handler.
func New() *Server {
	s := &Server{
		bookmarkEvery: time.Minute,
		version:       1000,
		shelves:       make(map[resource]*shelf),
		changed:       make(chan struct{}),
		dropped:       make(chan struct{}),
		cut:           make(chan struct{}),
		denied:        make(map[string]bool),
	}
	for _, r := range resources {
		s.shelves[r] = &shelf{objects: make(map[string]*object)}
	}
	return s
}

// NewServer returns a Server on a free port of 127.0.0.1, with TLS and HTTP/2. It is closed at the
// end of the test.
func NewServer(t TB) *Server {
	t.Helper()
	return NewServerAt(t, "127.0.0.1:0")
}

// NewServerAt is NewServer with a chosen address, for example in a namespace.
func NewServerAt(t TB, address string) *Server {
	t.Helper()
	s, err := StartAt(address)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// StartAt is NewServerAt without a test. The caller must close the Server.
func StartAt(address string) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := New()
	s.listener = httptest.NewUnstartedServer(s)
	s.listener.Listener.Close()
	s.listener.Listener = listener
	s.listener.EnableHTTP2 = true
	s.listener.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that do not trust us
	s.listener.StartTLS()
	return s, nil
}

// Close ends the watches and closes the port.
func (s *Server) Close() {
	s.CloseWatches()
	if s.listener != nil {
		s.listener.CloseClientConnections()
		s.listener.Close()
	}
}

// CloseConnections closes the existing connections, like a killed server.
func (s *Server) CloseConnections() { s.listener.CloseClientConnections() }

// CloseWatches ends the existing watches, like a server that shuts down.
func (s *Server) CloseWatches() { s.renew(&s.dropped) }

// CutWatches ends the existing watches within an event.
func (s *Server) CutWatches() { s.renew(&s.cut) }

func (s *Server) renew(signal *chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(*signal)
	*signal = make(chan struct{})
}

// Old makes the server behave like Kubernetes 1.11, the version in OpenShift 3.11: no
// EndpointSlices and no bookmarks. Call it before the first request.
func (s *Server) Old() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.old = true
}

// SetToken makes the server reject requests without this bearer token.
func (s *Server) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// Requests returns the requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Sent returns the number of bytes of lists and watches sent, below TLS and HTTP.
func (s *Server) Sent() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// Version returns the resourceVersion of the last change.
func (s *Server) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Compact drops the history: a watch from any earlier version is 410 Gone.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	for _, shelf := range s.shelves {
		shelf.history, shelf.oldest = nil, s.version
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target, ok := parseTarget(r)
	s.note(target, r)
	f := s.takeFaults(target)
	if f.Hang {
		hang(r.Context(), s)
		return
	}
	switch status := s.refusal(target, ok, f, r); {
	case status != nil:
		s.writeStatus(w, r, status)
	case target.review:
		s.review(w, r)
	case target.discovery:
		writeJSON(w, http.StatusOK, metav1.APIResourceList{
			GroupVersion: target.resource.group(), APIResources: []metav1.APIResource{{Name: string(target.resource)}},
		})
	case target.health:
		_, _ = io.WriteString(w, "ok")
	case target.watch:
		s.watch(w, r, target, f)
	default:
		s.list(w, r, target, f)
	}
}

func hang(ctx context.Context, s *Server) {
	s.mu.Lock()
	dropped := s.dropped
	s.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-dropped:
	}
}

func (s *Server) note(t target, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	s.requests = append(s.requests, Request{
		Path: r.URL.Path, Watch: t.watch, Version: q.Get("resourceVersion"), Agent: r.UserAgent(),
		Labels: q.Get("labelSelector"), Fields: q.Get("fieldSelector"), Limit: q.Get("limit"),
	})
}
