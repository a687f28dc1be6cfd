package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRequester(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	r := requester{path: filepath.Join(t.TempDir(), "run", "apply")}
	steps := []struct {
		name    string
		at      time.Duration
		pending []string
		asked   bool
		wait    time.Duration
	}{
		{"nothing to write", 0, nil, false, 0},
		{"a file is wrong", 0, []string{"/etc/resolv.conf"}, true, time.Second},
		{"still wrong, too soon", 300 * time.Millisecond, []string{"/etc/resolv.conf"}, false, 700 * time.Millisecond},
		{"still wrong after a second", time.Second, []string{"/etc/resolv.conf"}, true, 2 * time.Second},
		{"still wrong after two more", 3 * time.Second, []string{"/etc/resolv.conf"}, true, 4 * time.Second},
		{"another file is wrong too: at once", 3100 * time.Millisecond, []string{"/a", "/etc/resolv.conf"}, true, time.Second},
		{"all is well again", 4 * time.Second, nil, false, 0},
		{"trampled again: at once", 4 * time.Second, []string{"/a", "/etc/resolv.conf"}, true, time.Second},
	}
	for _, step := range steps {
		asked, wait, err := r.ask(start.Add(step.at), "a test", step.pending)
		if err != nil || asked != step.asked || wait != step.wait {
			t.Errorf("%s: asked %v, wait %v, %v; expected %v, %v", step.name, asked, wait, err, step.asked, step.wait)
		}
	}
	text, err := os.ReadFile(r.path)
	if err != nil || !strings.HasSuffix(string(text), " a test: /a /etc/resolv.conf\n") {
		t.Errorf("the request says %q, %v", text, err)
	}
}

func TestRequesterIsBounded(t *testing.T) {
	r := requester{path: filepath.Join(t.TempDir(), "apply")}
	now, asked := time.Unix(1_000_000, 0), 0
	for range 3600 { // an hour in which the file stays wrong
		if ok, _, err := r.ask(now, "a test", []string{"/etc/resolv.conf"}); err != nil {
			t.Fatal(err)
		} else if ok {
			asked++
		}
		now = now.Add(time.Second)
	}
	if asked < 60 || asked > 70 {
		t.Errorf("asked %d times in an hour, expected about once a minute", asked)
	}
}
