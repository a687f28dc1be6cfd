package journal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

func TestEntry(t *testing.T) {
	tests := []struct {
		name string
		log  func(*slog.Logger)
		want fields
	}{
		{
			"the message, as a line and as fields",
			func(log *slog.Logger) {
				log.Warn("upstream down", "server", netip.MustParseAddr("192.0.2.1"), "error", errors.New("timed out"), "rtt", 3*time.Millisecond, "n", 2)
			},
			fields{
				{"MESSAGE", `level=WARN msg="upstream down" server=192.0.2.1 error="timed out" rtt=3ms n=2`},
				{"PRIORITY", "4"},
				{"NODE_DNS_MSG", "upstream down"},
				{"SYSLOG_IDENTIFIER", "node-dns"},
				{"OBJECT_SYSTEMD_UNIT", "a.service"},
				{"NODE_DNS_SERVER", "192.0.2.1"},
				{"NODE_DNS_ERROR", "timed out"},
				{"NODE_DNS_RTT", "3ms"},
				{"NODE_DNS_N", "2"},
			},
		},
		{
			"a condition has a MESSAGE_ID",
			func(log *slog.Logger) { log.Error("all", UpstreamsDown.Attr()) },
			fields{
				{"MESSAGE", "level=ERROR msg=all condition=upstreams-down"},
				{"PRIORITY", "3"},
				{"NODE_DNS_MSG", "all"},
				{"SYSLOG_IDENTIFIER", "node-dns"},
				{"OBJECT_SYSTEMD_UNIT", "a.service"},
				{"MESSAGE_ID", "2aab54eb89a742b9a8150fed9760ab96"},
				{"NODE_DNS_CONDITION", "upstreams-down"},
			},
		},
		{
			"also one that the logger has, and groups",
			func(log *slog.Logger) {
				log = log.With(TaskFailed.Attr(), "a", 1).WithGroup("").WithGroup("g").With("b", 2)
				log.With("other", 1).Debug("sibling's are not its own")
				log.WithGroup("h").Debug("x", "c", 3, slog.Group("i", "d", 4), slog.Group("", "e", 5), slog.Group("none"))
			},
			fields{
				{"MESSAGE", "level=DEBUG msg=x condition=task-failed a=1 g.b=2 g.h.c=3 g.h.i.d=4 g.h.e=5"},
				{"PRIORITY", "7"},
				{"NODE_DNS_MSG", "x"},
				{"SYSLOG_IDENTIFIER", "node-dns"},
				{"OBJECT_SYSTEMD_UNIT", "a.service"},
				{"MESSAGE_ID", "44f3f1628cdd4e70b85a4ee72034f41f"},
				{"NODE_DNS_CONDITION", "task-failed"},
				{"NODE_DNS_A", "1"},
				{"NODE_DNS_G_B", "2"},
				{"NODE_DNS_G_H_C", "3"},
				{"NODE_DNS_G_H_I_D", "4"},
				{"NODE_DNS_G_H_E", "5"},
			},
		},
		{
			"keys that journald would not take, and a value of two lines",
			func(log *slog.Logger) {
				log.Info("x", "né.x y", "1\nPRIORITY=0\n", strings.Repeat("k", 80), "long", "", "no key")
			},
			fields{
				{"MESSAGE", `level=INFO msg=x "né.x y"="1\nPRIORITY=0\n" ` + strings.Repeat("k", 80) + `=long ""="no key"`},
				{"PRIORITY", "6"},
				{"NODE_DNS_MSG", "x"},
				{"SYSLOG_IDENTIFIER", "node-dns"},
				{"OBJECT_SYSTEMD_UNIT", "a.service"},
				{"NODE_DNS_N__X_Y", "1\nPRIORITY=0\n"},
				{"NODE_DNS_" + strings.Repeat("K", 55), "long"},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.log(w.logger())
			var got fields
			for e := w.entry(); e != nil; e = w.entry() {
				got = e // keep the last one
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if text := w.text(); text != "" {
				t.Errorf("stderr got it too: %s", text)
			}
		})
	}
}

func TestLevel(t *testing.T) {
	w := newWorld(t)
	level := new(slog.LevelVar)
	log := slog.New(newHandler(w.sender, "node-dns", "", level))
	log.Debug("not asked for")
	level.Set(slog.LevelDebug)
	log.Debug("asked for")
	if got := w.entry().get("NODE_DNS_MSG"); got != "asked for" {
		t.Errorf("got %q", got)
	}
}

// FuzzEntry: whatever is logged, journald can parse the entry, its field names are valid, it fits
// in a datagram, and no value injects a field.
func FuzzEntry(f *testing.F) {
	f.Add("msg", "group", "key", "value")
	f.Add("a\nb", "", "=", "line\nline")
	f.Add("", "\n", "ключ", strings.Repeat("é", maxValue))
	f.Add(strings.Repeat("x", maxMessage), "g", "k", "\xff\x00")
	allowed := regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)
	f.Fuzz(func(t *testing.T, message, group, key, value string) {
		w := newWorld(t)
		w.logger().With(key, value).WithGroup(group).Info(message, key, value, "last", 1, Ready.Attr())
		got := w.entry()
		if got == nil {
			t.Fatal("journald did not accept the entry")
		}
		names := map[string]int{}
		for _, field := range got {
			names[field[0]]++
			if !allowed.MatchString(field[0]) {
				t.Errorf("field %q", field[0])
			}
			if limit := maxMessage; len(field[1]) > limit || field[0] != "MESSAGE" && len(field[1]) > maxValue {
				t.Errorf("%s has %d bytes", field[0], len(field[1]))
			}
		}
		for _, name := range []string{"MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "OBJECT_SYSTEMD_UNIT", "MESSAGE_ID", "NODE_DNS_CONDITION"} {
			if key == "" || !strings.EqualFold(prefix+key, name) {
				if names[name] != 1 {
					t.Errorf("got %d times %s, want 1", names[name], name)
				}
			}
		}
		if strings.ContainsAny(got.get("MESSAGE"), "\n") {
			t.Errorf("MESSAGE is not one line: %q", got.get("MESSAGE"))
		}
	})
}

func TestUnitOf(t *testing.T) {
	tests := []struct{ name, groups, want string }{
		{"systemd 252", "0::/system.slice/NetworkManager-dispatcher.service\n", "NetworkManager-dispatcher.service"},
		{"below its unit", "0::/system.slice/system-node.slice/node@a.service/sub.service/x\n", "node@a.service"},
		{
			"RHEL 8, in both hierarchies", "12:cpu,cpuacct:/other.service\n1:name=systemd:/system.slice/node-dns-apply.service\n0::/\n",
			"node-dns-apply.service",
		},
		{"a login", "0::/user.slice/user-0.slice/session-1.scope\n", "session-1.scope"},
		{"escaped", "0::/system.slice/_cpu.service", "cpu.service"},
		{"none", "0::/\n", ""},
		{"no such file's format", "x\n::::\n", ""},
	}
	for _, test := range tests {
		if got := unitOf(test.groups); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
