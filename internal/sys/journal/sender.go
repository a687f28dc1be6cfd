package journal

import (
	"bytes"
	"strconv"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"
)

// sender hands entries to journald and never waits: a query must not. What journald does not take (its socket is gone, or
// its queue full, as where it hangs) becomes a line on stderr, which is a stream to journald with a queue of its own; what
// that does not take either is lost, and the next entry says how many were.
//
// go-systemd's Send is not used: with a full queue (EAGAIN) it waits until journald has read, without end where journald
// hangs, as Go's net package does for every socket (v22.7.0).
type sender struct {
	socket string // journald's
	stderr int    // a file descriptor, of a socket

	mu   sync.Mutex   // guards what follows
	line bytes.Buffer // the record's text
	fd   int          // of the datagram socket; below 0: not made yet
	lost int          // entries since the last one that got through
	torn bool         // the last line on stderr has no end
}

// atOnce is a send that does not wait, whatever the mode of the descriptor, which other processes share, and raises no
// SIGPIPE.
const atOnce = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL

// sendLocked sends what fill makes of the text in s.line.
func (s *sender) sendLocked(priority journal.Priority, fill func(e entry, message string) entry) {
	message := strings.TrimSuffix(s.line.String(), "\n")
	e := entry(nil)
	if s.lost > 0 {
		message = shorten(message, maxMessage/2) + " lost_before=" + strconv.Itoa(s.lost)
		e = e.add(prefix+"LOST_BEFORE", strconv.Itoa(s.lost), maxValue)
	}
	if s.toJournal(fill(e, message)) || s.toStderr(priority, shorten(message, maxMessage)) {
		s.lost = 0
		return
	}
	s.lost++
}

// toJournal reports whether journald has the entry. The socket is not connected: journald may be started anew.
func (s *sender) toJournal(e entry) bool {
	if s.fd < 0 {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return false
		}
		s.fd = fd
	}
	for {
		err := unix.Sendto(s.fd, e, atOnce, &unix.SockaddrUnix{Name: s.socket})
		if err != unix.EINTR {
			return err == nil
		}
	}
}

// toStderr reports whether the line is on its way. Its prefix is the priority as sd-daemon(3) writes it.
func (s *sender) toStderr(priority journal.Priority, message string) bool {
	line := "<" + strconv.Itoa(int(priority)) + ">" + message + "\n"
	if s.torn {
		line = "\n" + line
	}
	for {
		n, err := unix.SendmsgN(s.stderr, []byte(line), nil, nil, atOnce)
		if err == unix.EINTR {
			continue
		}
		if n > 0 {
			s.torn = n < len(line)
		}
		return err == nil && n == len(line)
	}
}
