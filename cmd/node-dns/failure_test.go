package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// insideWords are terms of Go, HTTP and sockets that mean nothing to an administrator. `status`
// with a hung daemon used to print `Get "http://node-dns/v1/status": read unix
// @->/run/node-dns/control.sock.new: read: connection reset by peer`.
var insideWords = []string{
	"strconv", "time: missing", "time: invalid", "parsing ", "ParseAddr", "http", "Get \"", "Post \"", "unix @", "dial", "read unix", "json:", "EOF", "context ", "deadline", "invalid character",
	"goroutine", "panic", "404", "flag needs", "nil",
}

// TestPlainWords: a daemon that answers incorrectly, or not at all, is described in an
// administrator's terms with the next step.
func TestPlainWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		says   string
	}{
		{"it closes the connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "does not answer: it closed the connection"},
		{"half an answer", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"pid": 7, `) }, "it closed the connection"},
		{"another program", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, "in a form that this program"},
		{"another type", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"started": "x", "time": "x", "now": "x", "entries": "x", "on": "x", "name": 7}`)
		}, "in a form that this program"},
		{"a number instead of a string", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"version": 7, "kind": 7, "on": 7, "name": 7}`)
		}, "in a form that this program"},
		{"an error without a reason", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, "in a form that this program"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := lab.ShortDir(t)
			serveControl(t, root, test.answer)
			for _, args := range []string{"status", "servers", "monitor", "cache dump", "log-queries", "status -o json"} {
				got := resultOf(t, exec.Command("node-dns", append([]string{"--root", root}, strings.Fields(args)...)...))
				if got.code != exitProblem || !strings.Contains(got.errors, test.says) {
					t.Errorf("%s: %+v", args, got)
				}
				checkPlain(t, args, got)
			}
		})
	}
}

// TestHungDaemon: commands report that a stopped daemon (SIGSTOP) hangs.
func TestHungDaemon(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	p := start(t, "exec node-dns --root $ROOT serve --listen 127.0.0.1:0 --upstream $SITE", "SITE="+site.Addr().String())
	p.await("it is ready", func() bool { return p.has("/run/node-dns/ready") })
	p.signal(unix.SIGSTOP)
	t.Cleanup(func() { p.signal(unix.SIGCONT) }) // after the parallel subtests
	for _, args := range []string{"status", "status -o json"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			got := resultOf(t, exec.Command("node-dns", append([]string{"--root", p.root}, strings.Fields(args)...)...))
			if got.code != exitProblem || !strings.Contains(got.errors, "node-dns: node-dns does not answer before the timeout; it may hang, or earlier commands of this user take long\n") {
				t.Errorf("%+v", got)
			}
			checkPlain(t, args, got)
		})
	}
	t.Run("completion", func(t *testing.T) {
		t.Parallel()
		if got := resultOf(t, exec.Command("node-dns", "__complete", "--root", p.root, "explain", "-n", "")); got.code != exitOK || got.out != ":4\n" {
			t.Errorf("%+v", got)
		}
	})
}

func checkPlain(t *testing.T, args string, got result) {
	t.Helper()
	for _, word := range insideWords {
		if strings.Contains(got.errors, word) || strings.Contains(got.out, word) {
			t.Errorf("%s says %q: %s%s", args, word, got.out, got.errors)
		}
	}
	if strings.Contains(args, "-o json") {
		var f failure
		if err := json.Unmarshal([]byte(got.out), &f); err != nil || f.Kind != "Error" || f.ExitCode != got.code || !strings.Contains(got.errors, f.Error) {
			t.Errorf("%s: %v, %+v", args, err, got)
		}
	}
}

// TestInterrupted: SIGINT and SIGTERM are the normal end of continuous commands, and not an error.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	p := start(t, "exec node-dns --root $ROOT serve --listen 127.0.0.1:0 --upstream $SITE", "SITE="+site.Addr().String())
	p.await("it is ready", func() bool { return p.has("/run/node-dns/ready") })
	for _, signal := range []os.Signal{os.Interrupt, unix.SIGTERM} {
		said := new(lab.Text)
		monitor := p.another(said, nil, "monitor", "-o", "json")
		p.await("the monitor", func() bool { return p.status().Watched.Monitors == 1 })
		monitor.Process.Signal(signal)
		if err := monitor.Wait(); err != nil || strings.Contains(said.String(), "Error") {
			t.Errorf("monitor ended with %v after %v: %s", err, signal, said)
		}
		p.await("its end", func() bool { return p.status().Watched.Monitors == 0 })
	}
}

// TestWatchedDaemonGoes: with -o json, --watch prints JSON even while the daemon is away.
func TestWatchedDaemonGoes(t *testing.T) {
	t.Parallel()
	p := &process{t: t, root: lab.ShortDir(t)}
	said := new(lab.Text)
	watching := p.another(said, nil, "status", "--brief", "--watch=100ms", "-o", "json")
	if !lab.Poll(20*time.Second, func() bool { return strings.Count(said.String(), `"kind":"Error"`) > 1 }) {
		t.Errorf("%s", said)
	}
	watching.Process.Signal(os.Interrupt)
	if err := watching.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	for documents := json.NewDecoder(strings.NewReader(said.String())); documents.More(); {
		var f failure
		if err := documents.Decode(&f); err != nil || f.ExitCode != exitNotRunning {
			t.Fatalf("%v: %s", err, said)
		}
	}
}
