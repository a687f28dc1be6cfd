package journal

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestJournaldIsAway: without journald's socket, messages go to stderr with their priority, and to
// journald again once it is back.
func TestJournaldIsAway(t *testing.T) {
	w := newWorld(t)
	log := w.logger()
	moved := w.sender.socket + ".away"
	w.sender.socket, moved = moved, w.sender.socket
	log.Warn("one", "a", "x y", Ready.Attr())
	log.Info("two")
	const want = "<4>level=WARN msg=one a=\"x y\" condition=ready\n<6>level=INFO msg=two\n"
	if got := w.text(); got != want {
		t.Errorf("stderr got %q, want %q", got, want)
	}
	w.sender.socket = moved
	log.Info("three")
	if got := w.entry().get("MESSAGE"); got != "level=INFO msg=three" {
		t.Errorf("journald got %q", got)
	}
}

// TestJournaldHangs: if journald does not read (SIGSTOP, or a disk that does not respond), logging
// does not block. First the queue of entries fills up, then that of lines. Lost entries are
// counted, and reported when journald reads again.
func TestJournaldHangs(t *testing.T) {
	w := newWorld(t)
	log := w.logger()
	said := 0
	for ; w.sender.lost < 3; said++ {
		if said == 1_000_000 {
			t.Fatal("no queue was ever full")
		}
		log.Info("hangs", "no", said, "padding", strings.Repeat("x", 1000))
	}
	entries := 0
	for w.entry() != nil {
		entries++
	}
	text := w.text()
	lines := strings.Count(text, "\n")
	if !strings.HasPrefix(text, fmt.Sprintf("<6>level=INFO msg=hangs no=%d ", entries)) {
		t.Errorf("stderr does not continue where journald's queue ended, at %d: %.60s", entries, text)
	}
	if entries == 0 || lines == 0 || entries+lines+3 != said {
		t.Errorf("%d entries, %d lines and 3 lost, of %d", entries, lines, said)
	}
	log.Info("again")
	got := w.entry()
	if got.get("MESSAGE") != "level=INFO msg=again lost_before=3" || got.get("NODE_DNS_LOST_BEFORE") != "3" {
		t.Errorf("journald got %q", got)
	}
	log.Info("well")
	if got := w.entry().get("MESSAGE"); got != "level=INFO msg=well" {
		t.Errorf("journald got %q", got)
	}
}

// TestTornLine: if stderr accepts only part of a line, the rest is lost, and the next message
// starts a new line.
func TestTornLine(t *testing.T) {
	w := newWorld(t)
	w.sender.socket += ".away"
	if err := unix.SetsockoptInt(w.sender.stderr, unix.SOL_SOCKET, unix.SO_SNDBUF, 8<<10); err != nil {
		t.Fatal(err)
	}
	log := w.logger()
	for i := 0; !w.sender.torn; i++ {
		if i == 1000 {
			t.Fatal("no line was ever torn")
		}
		log.Info("x", "padding", strings.Repeat("x", maxMessage))
	}
	w.text()
	log.Info("whole")
	if got, want := w.text(), "\n<6>level=INFO msg=whole lost_before="; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestManySayAtOnce(t *testing.T) {
	w := newWorld(t)
	var group sync.WaitGroup
	for i := range 4 {
		log := w.logger().With("who", i)
		group.Go(func() {
			for range 2 {
				log.Info("x", "again", i)
			}
		})
	}
	group.Wait()
	seen := map[string]int{}
	for e := w.entry(); e != nil; e = w.entry() {
		if e.get("NODE_DNS_WHO") != e.get("NODE_DNS_AGAIN") {
			t.Errorf("mixed entries: %q", e)
		}
		seen[e.get("MESSAGE")]++
	}
	if len(seen) != 4 || seen["level=INFO msg=x who=3 again=3"] != 2 {
		t.Errorf("got %v", seen)
	}
}
