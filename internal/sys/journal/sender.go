package journal

import (
	"bytes"
	"strconv"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"
)

// sender sends entries to journald without ever blocking, because queries must not wait. If
// journald does not accept an entry (its socket is missing, or its queue is full because it hangs),
// the entry becomes a line on stderr, which is a stream to journald with its own queue. If that is
// full too, the entry is lost, and the next entry reports how many were.
//
// The Send function of go-systemd is not used. If the queue is full (EAGAIN), it waits until
// journald has read, forever if journald hangs, as Go's net package does for every socket
// (v22.7.0).
type sender struct {
	socket string // path of journald's socket
	stderr int    // file descriptor of a socket

	mu   sync.Mutex   // guards the fields below
	line bytes.Buffer // text of the record
	fd   int          // datagram socket; negative if not created yet
	lost int          // entries lost since the last successful one
	torn bool         // the last line on stderr is incomplete
}

// atOnce are flags for a send that never blocks, regardless of the mode of the descriptor, which
// other processes share, and that raises no SIGPIPE.
const atOnce = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL

// sendLocked sends the entry that fill makes of the text in s.line.
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

// toJournal reports whether journald accepted the entry. The socket is not connected, because
// journald may be restarted.
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

// toStderr reports whether the line was sent. It is prefixed with the priority as in sd-daemon(3).
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
