package hostdns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRequester(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	r := Requester{Path: filepath.Join(t.TempDir(), "run", "apply")}
	resolvConf, both := []string{"/etc/resolv.conf"}, []string{"/a", "/etc/resolv.conf"}
	steps := []struct {
		name    string
		at      time.Duration
		pending []string
		written bool
		news    Asked
		wait    time.Duration
	}{
		{"nothing to write", 0, nil, false, NothingNew, 0},
		{"a file is wrong", 0, resolvConf, true, AskedNow, time.Second},
		{"still wrong, within the wait", 300 * time.Millisecond, resolvConf, false, NothingNew, 700 * time.Millisecond},
		// Each repetition was logged, once a minute forever.
		{"still wrong after a second", time.Second, resolvConf, true, NothingNew, 2 * time.Second},
		{"a second wrong file is requested at once", 3 * time.Second, both, true, AskedNow, time.Second},
		{"all files are right", 4 * time.Second, nil, false, AskedDone, 0},
		{"still right", 5 * time.Second, nil, false, NothingNew, 0},
		{"wrong again", 5 * time.Second, both, true, AskedNow, time.Second},
		{"mended", 6 * time.Second, nil, false, AskedDone, 0},
		{"wrong once more", 6 * time.Second, resolvConf, true, AskedNow, time.Second},
	}
	for _, step := range steps {
		os.Remove(r.Path)
		news, wait := r.Ask(start.Add(step.at), "a test", step.pending)
		_, err := os.Stat(r.Path)
		if news != step.news || wait != step.wait || step.written != (err == nil) || r.failure != nil {
			t.Errorf("%s: news %v, wait %v, %v, %v; want %v, %v", step.name, news, wait, err, r.failure, step.news, step.wait)
		}
	}
	text, err := os.ReadFile(r.Path)
	if err != nil || !strings.HasSuffix(string(text), " a test: /etc/resolv.conf\n") {
		t.Errorf("the request is %q, %v", text, err)
	}
}

// TestRequesterIsBounded: a file stays wrong.
func TestRequesterIsBounded(t *testing.T) {
	r := Requester{Path: filepath.Join(t.TempDir(), "apply")}
	var last string
	times := 0
	for second := range 3600 {
		r.Ask(time.Unix(int64(second), 0), "a test", []string{"/etc/resolv.conf"})
		text, err := os.ReadFile(r.Path)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != last {
			times, last = times+1, string(text)
		}
	}
	if times < 60 || times > 70 {
		t.Errorf("got %d requests in an hour, want 60 to 70", times)
	}
}

// TestAskedInVain: after the third unsuccessful request the failure becomes a problem, until
// something changes.
func TestAskedInVain(t *testing.T) {
	r := Requester{Path: filepath.Join(t.TempDir(), "apply")}
	now := time.Unix(1_000_000, 0)
	wrong := []string{"/etc/resolv.conf"}
	steps := []struct {
		name    string
		pending []string
		problem string // part of the problem
	}{
		{"asked once", wrong, ""},
		{"twice", wrong, ""},
		{"three times", wrong, ""},
		{"four times", wrong, `/etc/resolv.conf was requested several times but not written; check "systemctl status node-dns-apply.path"`},
		{"mended", nil, ""},
	}
	for _, step := range steps {
		_, wait := r.Ask(now, "a test", step.pending)
		if got := r.Problem(); (got == "") != (step.problem == "") || !strings.Contains(got, step.problem) {
			t.Errorf("%s: problem %q, want %q", step.name, got, step.problem)
		}
		now = now.Add(wait)
	}
	r.Path = filepath.Join(t.TempDir(), "no", "\x00")
	r.Ask(now, "a test", wrong)
	if got := r.Problem(); !strings.Contains(got, "requesting a run of origin-dns-dispatcher: ") {
		t.Errorf("a request that cannot be written: problem %q", got)
	}
}
