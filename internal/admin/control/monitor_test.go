package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/golden"
)

// serveAPI is like serve but takes the whole API.
func serveAPI(t *testing.T, api API) (path string, stop func()) {
	t.Helper()
	path = socketPath(t)
	listener, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, listener, api) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	t.Cleanup(stop)
	return path, stop
}

// TestMonitor proves that events arrive at once, even after a pause that is longer than a request
// may take, and that each side notices the end of the other.
func TestMonitor(t *testing.T) {
	gone := make(chan struct{}, 3)
	path, stop := serveAPI(t, API{Monitor: func(ctx context.Context, f MonitorFilter, send func(MonitorEvent) error, flush func() error) error {
		defer func() { gone <- struct{}{} }()
		if err := flush(); err != nil {
			return err
		}
		if f.Name == "patience" {
			select {
			case <-time.After(2200 * time.Millisecond): // longer than Serve's ReadTimeout
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for i := range 3 {
			if err := errors.Join(send(MonitorEvent{Kind: KindQuery, Name: fmt.Sprintf("%d.%s.", i, f.Name)}), flush()); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	}})
	enough := errors.New("enough")
	for _, name := range []string{"a", "patience"} {
		var got []string
		err := Monitor(t.Context(), path, MonitorFilter{Name: name}, func(e MonitorEvent) error {
			if got = append(got, e.Kind+" "+e.Name); len(got) == 3 {
				return enough
			}
			return nil
		})
		want := fmt.Sprintf("[Query 0.%[1]s. Query 1.%[1]s. Query 2.%[1]s.]", name)
		if !errors.Is(err, enough) || fmt.Sprint(got) != want {
			t.Errorf("got %v, %v", got, err)
		}
		select {
		case <-gone:
		case <-time.After(20 * time.Second):
			t.Fatal("the daemon did not notice that the client disconnected")
		}
	}
	err := Monitor(t.Context(), path, MonitorFilter{Name: "b"}, func(MonitorEvent) error {
		go stop()
		return nil
	})
	if !errors.Is(err, ErrNotRunning) {
		t.Errorf("got %v when the daemon ended", err)
	}
}

// TestMonitorSleeper proves that a client that does not read blocks nothing, not even the daemon's
// stop.
func TestMonitorSleeper(t *testing.T) {
	stuck := make(chan struct{})
	path, stop := serveAPI(t, API{Monitor: func(_ context.Context, _ MonitorFilter, send func(MonitorEvent) error, _ func() error) (err error) {
		for i := 0; err == nil; i++ {
			if i == 100 { // the socket buffer is full, or will be soon
				close(stuck)
			}
			err = send(MonitorEvent{Kind: KindQuery, Name: strings.Repeat("x", 1000)})
		}
		return err
	}})
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST "+monitorPath+" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	<-stuck
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop()
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the daemon waits for a client that does not read")
	}
}

func TestMonitorRefused(t *testing.T) {
	for name, test := range map[string]struct {
		api    API
		filter MonitorFilter
		err    error
		says   string
	}{
		"an old daemon": {api: API{}, says: "does not support this request: its version differs"},
		"too many":      {api: fails(fmt.Errorf("%w: end one", ErrBusy)), says: "node-dns reports: too many clients run this command: end one"},
		"no filter":     {api: fails(MistakeError{Why: "no such type"}), err: MistakeError{Why: "no such type"}, says: "no such type"},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := serveAPI(t, test.api)
			err := Monitor(t.Context(), path, test.filter, func(MonitorEvent) error { return nil })
			if err == nil || !strings.Contains(err.Error(), test.says) || test.err != nil && !errors.Is(err, test.err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func fails(err error) API {
	return API{Monitor: func(context.Context, MonitorFilter, func(MonitorEvent) error, func() error) error { return err }}
}

// TestMonitorOfAnotherTime proves that events of a newer daemon are accepted and that invalid data
// ends the stream.
func TestMonitorOfAnotherTime(t *testing.T) {
	for answer, want := range map[string]string{
		`{"kind":"Later","new":[1]}` + "\n": ErrNotRunning.Error(),
		"<html>":                            "the output is incomplete: node-dns does not answer in a form that this program understands",
	} {
		path := socketPath(t)
		listener, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) })}
		go server.Serve(listener)
		err = Monitor(t.Context(), path, MonitorFilter{}, func(MonitorEvent) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", answer, err)
		}
		server.Close()
	}
}

func TestMonitorText(t *testing.T) {
	at := time.Date(2026, 11, 22, 14, 3, 11, 204e6, time.Local)
	took, none := int64(50_000), int64(9_800_000)
	var out, asJSON bytes.Buffer // the tests of the Cockpit page (test/cockpit) read the JSON too
	for _, event := range []MonitorEvent{
		{Kind: KindQuery, Client: "10.128.0.14", Type: "A", Name: "web.shop.svc.cluster.local.", Rcode: "NOERROR", By: "hit", Took: &took},
		{Kind: KindQuery, Client: "10.128.0.14", Type: "AAAA", Name: "api.example.com.", Rcode: "NOERROR", By: "upstream", Server: "10.0.0.2", Took: &none},
		{Kind: KindQuery, Client: "2001:db8::ffff:ffff:ffff:ffff", Type: "TYPE65400", Name: "a-name-that-is-longer-than-its-column.example.com.", Rcode: "SERVFAIL", By: "failed", Took: &none, Why: "no response from \x1b[2J10.0.0.2\n (timed out)"},
		{Kind: KindQuery, Client: "10.128.0.14", By: "refused"},
		{Kind: KindQuery, Client: "10.128.0.14", Pod: "shop/web-7d9f4b5c6-x2x4z", Type: "A", Name: "web.", Rcode: "NOERROR", By: "hit", Took: &took},
		{Kind: KindQuery, Client: "2001:db8::1", Pod: "a-long-namespace/and-a-\x1b-name-of-a-pod", Type: "A", Name: "web.", Rcode: "NOERROR", By: "hit", Took: &took},
		{Kind: KindChange, Change: "upstream down", Details: `server=10.0.0.3 error="timed out"`},
		{Kind: KindLost, Queries: 1234},
		{Kind: KindLost, Queries: 1234567},
		{Kind: KindLost, Queries: 7},
	} {
		event.Time = at
		if err := event.WriteText(&out); err != nil {
			t.Fatal(err)
		}
		event.Time = noon
		if err := json.NewEncoder(&asJSON).Encode(event); err != nil {
			t.Fatal(err)
		}
	}
	golden.Check(t, filepath.Join("testdata", "monitor.txt"), out.String())
	golden.Check(t, filepath.Join("testdata", "monitor.json"), asJSON.String())
}
