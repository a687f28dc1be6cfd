package journal

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestJournaldIsAway: without its socket what is said goes to stderr, with its priority, and to journald again when it is back.
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

// TestJournaldHangs: one that reads nothing (SIGSTOP, a disk that does not answer) holds nobody up. First its queue of
// entries is full, then that of lines; what is lost is counted, and told of when journald reads again.
func TestJournaldHangs(t *testing.T) {
	w := newWorld(t)
	log := w.logger()
	said := 0
	for ; w.sender.lost < 3; said++ {
		if said == 1_000_000 {
			t.Fatal("no queue is ever full")
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
		t.Errorf("stderr does not go on where journald's queue ended, at %d: %.60s", entries, text)
	}
	if entries == 0 || lines == 0 || entries+lines+3 != said {
		t.Errorf("%d entries, %d lines and 3 lost of %d", entries, lines, said)
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

// TestTornLine: the rest of a line that stderr took a part of is lost; the next line is one of its own.
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
			t.Errorf("mixed up: %q", e)
		}
		seen[e.get("MESSAGE")]++
	}
	if len(seen) != 4 || seen["level=INFO msg=x who=3 again=3"] != 2 {
		t.Errorf("got %v", seen)
	}
}
