// Package kubetest is a Kubernetes API server for tests: it lists and watches objects that the test applies, in
// protobuf and JSON, with resourceVersions, bookmarks and faults to order.
//
// It is apart from the lane with a real kube-apiserver, which tells whether the watcher understands what is sent: no
// real server loses an event, closes in the midst of one or is restored to last week when it is told to. It encodes
// with the types of k8s.io/api, which the watcher does not know.
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

// TB is the part of testing.TB that is used here.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Server is an API server. Its zero value is not usable; its methods may be called concurrently, and while it serves.
type Server struct {
	bookmarkEvery time.Duration

	mu        sync.Mutex // guards what follows
	version   uint64
	shelves   map[resource]*shelf
	changed   chan struct{} // closed at the next change of anything that a watch waits for
	dropped   chan struct{} // closed to end the watches
	cut       chan struct{} // closed to end them in the midst of an event
	faults    Faults
	met       int // requests that met faults
	denied    map[string]bool
	token     string
	old       bool
	imports   bool
	openShift bool

	silentImports int
	requests      []Request
	sent          int64
	listener      *httptest.Server // nil: it serves no port
}

// shelf holds the objects of one resource.
type shelf struct {
	objects map[string]*object // by namespace/name
	history []change
	oldest  uint64 // a watch from before this version is 410 Gone
}

// change is an event as it happened, before any selector.
type change struct {
	version  uint64
	was, now *object // nil: it was, is not there
	lost     bool    // no watch tells of it
}

// Request is one that came.
type Request struct {
	Path    string // without what is in Query
	Watch   bool
	Version string // resourceVersion
	Labels  string // labelSelector
	Fields  string // fieldSelector
	Limit   string
	Agent   string // User-Agent
}

// New returns a Server that serves no port: it is an http.Handler.
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

// NewServer returns a Server on a free port of 127.0.0.1, with TLS and HTTP/2, that is closed when the test ends.
func NewServer(t TB) *Server {
	t.Helper()
	return NewServerAt(t, "127.0.0.1:0")
}

// NewServerAt is NewServer on an address of the caller's choice, as for a namespace.
func NewServerAt(t TB, address string) *Server {
	t.Helper()
	s, err := StartAt(address)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// StartAt is NewServerAt where there is no test at hand. It must be closed.
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

// Close ends the watches, and the port.
func (s *Server) Close() {
	s.CloseWatches()
	if s.listener != nil {
		s.listener.CloseClientConnections()
		s.listener.Close()
	}
}

// CloseConnections closes the connections that stand, as a server does that is killed.
func (s *Server) CloseConnections() { s.listener.CloseClientConnections() }

// CloseWatches ends the watches that stand as a server does that is told to stop.
func (s *Server) CloseWatches() { s.renew(&s.dropped) }

// CutWatches ends the watches that stand in the midst of an event.
func (s *Server) CutWatches() { s.renew(&s.cut) }

func (s *Server) renew(signal *chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(*signal)
	*signal = make(chan struct{})
}

// Old makes the server one of Kubernetes 1.11, which OpenShift 3.11 is: no EndpointSlices, no bookmarks. It is to be
// called before the first request.
func (s *Server) Old() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.old = true
}

// SetToken has the server refuse requests without this bearer token.
func (s *Server) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// Requests returns the requests that came so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Sent returns how many octets of lists and watches went out, as they were on the wire below TLS and HTTP.
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

// Compact forgets the history: a watch from any version before the present one is 410 Gone.
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
