package journal

import (
	"errors"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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
