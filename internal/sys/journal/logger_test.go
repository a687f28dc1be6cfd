package journal

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// TestLeadsToJournal: JOURNAL_STREAM counts only if it describes stderr.
func TestLeadsToJournal(t *testing.T) {
	var here unix.Stat_t
	if err := unix.Fstat(unix.Stderr, &here); err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	tests := []struct {
		name, stream string
		stderr       int
		want         bool
	}{
		{"stderr is the journal", fmt.Sprintf("%d:%d", here.Dev, here.Ino), unix.Stderr, true},
		{"a terminal below a unit: the variable is inherited", fmt.Sprintf("%d:%d", here.Dev, here.Ino+1), unix.Stderr, false},
		{"no number", "journal", unix.Stderr, false},
		{"another socket", "", pair[0], false},
		{"none", "", unix.Stderr, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("JOURNAL_STREAM", test.stream)
			if got := leadsToJournal(test.stderr); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// TestText: anything other than the journal gets lines with the time, at the configured level,
// whatever JOURNAL_STREAM says.
func TestText(t *testing.T) {
	var here unix.Stat_t
	if err := unix.Fstat(unix.Stderr, &here); err != nil {
		t.Fatal(err)
	}
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", here.Dev, here.Ino))
	var text bytes.Buffer
	log := NewLogger(&text, "node-dns", slog.LevelWarn)
	log.Info("not asked for")
	log.Warn("upstream down", "server", "192.0.2.1", UpstreamDown.Attr())
	want := regexp.MustCompile(`^time=\S+ level=WARN msg="upstream down" server=192\.0\.2\.1 condition=upstream-down\n$`)
	if !want.MatchString(text.String()) {
		t.Errorf("got %q", &text)
	}
	if _, isOurs := NewLogger(termtext.NewWriter(os.Stderr), "node-dns", slog.LevelInfo).Handler().(handler); !isOurs {
		t.Error("stderr is the journal but was not recognized")
	}
}
