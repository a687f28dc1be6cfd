package kubewire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// watchBody returns the body of a watch of Services with a few changes.
func watchBody(t testing.TB, accept string) []byte {
	t.Helper()
	s := kubetest.New()
	s.Apply(strings.Split(objects, "---")[0])
	s.Apply(strings.Split(objects, "---")[0])
	s.Delete("Service", "shop", "a-web")
	s.Touch()
	return readWatch(t, s, "/api/v1/services?watch=1&resourceVersion=1000&allowWatchBookmarks=true", accept).Bytes()
}

// readWatch returns the body of a watch that ends after the events up to now: its client has gone.
func readWatch(t testing.TB, s *kubetest.Server, target, accept string) *bytes.Buffer {
	t.Helper()
	gone, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(gone, http.MethodGet, target, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Body
}

func frames(t testing.TB) []byte { return watchBody(t, Accept) }

func TestWatch(t *testing.T) {
	t.Parallel()
	for format, accept := range map[Format]string{Protobuf: Accept, JSON: "application/json"} {
		events := NewDecoder(Services).Watch(iotest.OneByteReader(bytes.NewReader(watchBody(t, accept))), format)
		want := []struct {
			kind    EventType
			version uint64
		}{{Set, 1001}, {Set, 1002}, {Deleted, 1003}}
		for _, want := range want {
			got, err := events.Next()
			if err != nil {
				t.Fatal(err)
			}
			key := zone.Key{Namespace: "shop", Name: "a-web"}
			if got.Type != want.kind || got.Object.Version != want.version || got.Object.Key != key {
				t.Errorf("event %+v, want type %d version %d", got, want.kind, want.version)
			}
		}
		if event, err := events.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("after the last event %+v, %v", event, err)
		}
	}
}

// TestWatchCutOff: a watch that ends within an event fails.
func TestWatchCutOff(t *testing.T) {
	t.Parallel()
	for format, accept := range map[Format]string{Protobuf: Accept, JSON: "application/json"} {
		body := watchBody(t, accept)
		for cut := range len(body) - 1 {
			events := NewDecoder(Services).Watch(bytes.NewReader(body[:cut]), format)
			octets := 0
			for {
				event, err := events.Next()
				if err == nil {
					octets = len(body) // at least one complete event
					continue
				}
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("cut after %d bytes: %+v, %v", cut, event, err)
				}
				if cut > 0 && octets == 0 && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("cut after %d bytes, no complete event: %v", cut, err)
				}
				break
			}
		}
	}
}

func TestWatchFails(t *testing.T) {
	for _, accept := range []string{Accept, "application/json"} {
		s := kubetest.New()
		s.Compact()
		s.SetFaults(kubetest.Faults{EventGone: true})
		body := get(t, s, paths[Pods]+"?watch=1&resourceVersion=5", accept)
		format, err := ParseFormat(body.Header().Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		event, err := NewDecoder(Pods).Watch(body.Body, format).Next()
		want := Event{Type: Failed, Status: Status{Code: 410, Reason: "Expired", Message: "too old resource version: 5"}}
		if diff := cmp.Diff(want, event, sameSet); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	}
}

func TestParseStatus(t *testing.T) {
	s := kubetest.New()
	ask := func(path, accept string) Status {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return ParseStatus(w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
	}
	want := Status{
		Code: 504, Reason: "Timeout", Message: "Too large resource version", RetryAfter: time.Second, TooLargeVersion: true,
	}
	for _, accept := range []string{Accept, "application/json"} {
		if got := ask(paths[Services]+"?resourceVersion=99999", accept); got != want {
			t.Errorf("%s: %+v, want %+v", accept, got, want)
		}
	}
	s.SetFaults(kubetest.Faults{Status: 429, Plain: true})
	if got := ask(paths[Services], Accept); got.Code != 429 || !strings.Contains(got.Message, "ordered") {
		t.Errorf("plain text: %+v", got)
	}
	if got := ParseStatus(502, "application/vnd.kubernetes.protobuf", []byte("no")); got.Code != 502 || got.Message != "no" {
		t.Errorf("wrong content type: %+v", got)
	}
}
