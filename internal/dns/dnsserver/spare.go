package dnsserver

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// spare is a file descriptor that is kept for when the process has no other: without one a connection cannot even be closed, and
// who made it waits in the kernel's queue for an answer that nobody reads his question for.
type spare struct {
	mu   sync.Mutex // guards what follows, and is held while the descriptor is lent
	file *os.File   // nil: there was none left to take back
}

// hold takes the descriptor, unless it is held.
func (s *spare) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holdLocked()
}

func (s *spare) holdLocked() {
	if s.file == nil {
		s.file, _ = os.Open(os.DevNull) // tried again when one is needed
	}
}

func (s *spare) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}

// turnAway closes the connections that wait at a listening socket, with nothing said, and reports how many those were.
func (s *spare) turnAway(listening int) (n int) {
	const most = 100
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.holdLocked()
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
	for ; n < most; n++ {
		fd, _, err := unix.Accept4(listening, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return n
		}
		unix.Close(fd)
	}
	return n
}
