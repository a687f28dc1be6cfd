package supervise

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// Inherit returns the files that the service manager passed at startup (sd_listen_fds(3)): the
// sockets of socket units, and the files that an earlier run put into the Store. Name() of each is
// its FDNAME. The environment variables are cleared, so that child processes do not use the files,
// and a second call returns nothing.
func Inherit() []*os.File { return activation.Files(true) }

// Store is the service manager's file descriptor store (sd_notify(3), FDSTORE=1). Files in it
// survive the end of the process, however it ends, and the next process gets them from Inherit,
// until the service is stopped for good. The zero Store means that there is no service manager.
//
// The messages are written here because go-systemd cannot send file descriptors.
type Store struct{ socket string }

// OpenStore returns the store of the manager in $NOTIFY_SOCKET, or the zero Store if there is none.
func OpenStore() Store { return Store{os.Getenv("NOTIFY_SOCKET")} }

// errNoStore means that there is no service manager to store files.
var errNoStore = errors.New("no service manager")

// storeTimeout is the time that the manager may take to read a message. PID 1 reads within
// milliseconds unless it hangs.
const storeTimeout = time.Second

// Exists reports whether there is a manager to talk to. It may still keep nothing; see Keeps.
func (s Store) Exists() bool { return s.socket != "" }

// Put stores a file in addition to others with the same name. Storing the same file again has no
// effect (systemd since 220). A name has at most 255 bytes and no colon or control character.
func (s Store) Put(name string, fd int) error {
	// FDPOLL=0 (ignored before systemd 246) keeps a socket that has an error, and a pipe without a
	// reader.
	return s.send("FDSTORE=1\nFDPOLL=0\nFDNAME="+name, fd)
}

// Remove removes all files with a name (systemd since 236).
func (s Store) Remove(name string) error { return s.send("FDSTOREREMOVE=1\nFDNAME=" + name) }

// Keeps reports whether the manager kept the files that were Put before and has room for more. The
// manager does not report this: without FileDescriptorStoreMax=, or at that limit, it silently
// drops files. So Keeps stores one end of a pipe and checks at the other end whether that end is
// still open.
func (s Store) Keeps() (bool, error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return false, fmt.Errorf("creating a pipe: %w", err)
	}
	defer unix.Close(pipe[0])
	const name = "probe"
	err := s.Put(name, pipe[1])
	unix.Close(pipe[1])
	if err == nil {
		err = s.barrier()
	}
	if err != nil {
		return false, err
	}
	gone, err := hangsUp(pipe[0], 0)
	if err != nil || gone {
		return false, err
	}
	return true, s.Remove(name)
}

// barrier waits until the manager has processed everything sent before (sd_notify_barrier(3)).
// Managers before systemd 246 do not support it, but close the file that comes with it all the
// same.
func (s Store) barrier() error {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("creating a pipe: %w", err)
	}
	defer unix.Close(pipe[0])
	err := s.send("BARRIER=1", pipe[1])
	unix.Close(pipe[1])
	if err != nil {
		return err
	}
	processed, err := hangsUp(pipe[0], storeTimeout)
	if err == nil && !processed {
		err = fmt.Errorf("no answer from the service manager within %v", storeTimeout)
	}
	return err
}

// hangsUp waits until the other end of a pipe is closed, and reports whether it is.
func hangsUp(fd int, patience time.Duration) (bool, error) {
	poll := []unix.PollFd{{Fd: int32(fd)}}
	for deadline := time.Now().Add(patience); ; {
		n, err := unix.Poll(poll, int(max(0, time.Until(deadline)).Milliseconds()))
		if !errors.Is(err, unix.EINTR) { // Go's runtime interrupts its own threads
			return n > 0 && poll[0].Revents&unix.POLLHUP != 0, err
		}
	}
}

func (s Store) send(state string, fds ...int) error {
	if !s.Exists() {
		return errNoStore
	}
	// This does not wake Go's scheduler. The send below waits if the socket is full.
	if len(fds) == 0 && rawsock.SendUnix(s.socket, state) {
		return nil
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("notifying the service manager: %w", err)
	}
	defer unix.Close(socket)
	timeout := unix.NsecToTimeval(storeTimeout.Nanoseconds())
	err = unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout)
	if err == nil {
		var rights []byte
		if len(fds) > 0 {
			rights = unix.UnixRights(fds...)
		}
		err = unix.Sendmsg(socket, []byte(state), rights, &unix.SockaddrUnix{Name: s.socket}, unix.MSG_NOSIGNAL)
	}
	if err != nil {
		return fmt.Errorf("notifying the service manager: %w", err)
	}
	return nil
}
