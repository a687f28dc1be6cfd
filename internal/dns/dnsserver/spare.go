package dnsserver

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// spare is a file descriptor kept in reserve for when the process has no other. Without one, the
// server cannot even close a connection, and the client waits in the kernel's queue for an answer
// to a query that is never read.
type spare struct {
	mu   sync.Mutex // guards file; held while the descriptor is lent
	file *os.File   // nil if no descriptor was free to reopen it
}

// hold opens the descriptor unless it is open.
func (s *spare) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holdLocked()
}

func (s *spare) holdLocked() {
	if s.file == nil {
		s.file, _ = os.Open(os.DevNull) // retried when one is needed
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

// closePending closes the connections that wait at a listening socket and returns their number.
func (s *spare) closePending(listening int) (n int) {
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
