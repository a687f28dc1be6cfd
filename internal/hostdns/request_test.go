package hostdns

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"testing"

	"github.com/node-dns/node-dns/internal/nm"
)

func TestTakeRequest(t *testing.T) {
	const request = "/run/node-dns/apply"
	for _, test := range []struct {
		name string
		lay  func(w *tree)
	}{
		{"neither the request nor its directory exists", func(*tree) {}},
		{"there is none", func(w *tree) { w.mkdir("/run/node-dns") }},
		{"a file", func(w *tree) { w.put(request, "please\n") }},
		{"a directory with something in it", func(w *tree) { w.put(request+"/a/b", "") }},
		{"a link", func(w *tree) { w.put(request, "-> /etc") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTree(t, nil)
			test.lay(w)
			if err := w.runner().TakeRequest(); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(w.at(request)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the request still exists: %v", err)
			}
		})
	}
}

// TestTakeRequestAtOnce: a compromised daemon made the request a directory of 150,000 files, and
// the run that had to remove them exceeded its deadline.
func TestTakeRequestAtOnce(t *testing.T) {
	const request = "/run/node-dns/apply"
	w := newTree(t, map[string]string{request + "/a/b": "x", request + "/c": "-> /etc"})
	var progress Progress
	r := w.runner()
	r.Applier.Progress = &progress
	if err := r.TakeRequest(); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(w.at("/run/node-dns"))
	if err != nil || len(names) != 1 || names[0].Name() == "apply" {
		t.Fatalf("got %v, %v, want the directory under another name", names, err)
	}
	if got := w.read("/run/node-dns/" + names[0].Name() + "/a/b"); got != "x" {
		t.Errorf("its files were changed: %q", got)
	}
	if got := progress.String(); got != "taking the request "+w.at(request) {
		t.Errorf("got %q", got)
	}
}

// TestCapture: a capture does not probe the nameserver or change resolv.conf, because the daemon is
// about to start.
func TestCapture(t *testing.T) {
	for _, text := range []string{generated, oursText} {
		w := newTree(t, map[string]string{etcResolvConf: text, varOriginal: generated, etcUpstreams: "server=10.0.0.9\n"})
		w.snapshot = &nm.Snapshot{Configs: []nm.DNSConfig{dnsConfig("eth0", "10.0.0.2 10.0.0.3", "example.com")}}
		r := w.runner()
		r.Applier.Answers = func(context.Context, netip.AddrPort, bool) (string, error) {
			t.Error("the local nameserver was probed")
			return "", errNoAnswer
		}
		if err := r.Capture(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.read(etcUpstreams); got != "server=10.0.0.2\nserver=10.0.0.3\n" {
			t.Errorf("captured %q", got)
		}
		if got := w.read(etcResolvConf); got != text {
			t.Errorf("got resolv.conf %q, want %q", got, text)
		}
	}
}

// TestCaptureBesideARun: a capture does not wait for another run, which may be waiting for the
// daemon, which waits for the capture.
func TestCaptureBesideARun(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: oursText, varOriginal: generated})
	unlock, err := Lock(t.Context(), w.paths.Lock)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	before := w.files()
	if err := w.runner().Capture(t.Context()); err != nil {
		t.Errorf("got error %v, want nil", err)
	}
	if after := w.files(); len(after) != len(before) || w.log.Len() > 0 {
		t.Errorf("the files changed to %v, before %v\n%s", after, before, &w.log)
	}
}
