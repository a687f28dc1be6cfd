package rawsock

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestNetpoller: while one goroutine waits in the kernel, others are still woken by their events.
// In an idle program, the thread that polled for all of them is the one that now waits in the
// kernel.
func TestNetpoller(t *testing.T) {
	const child = "BUSY_NETPOLLER"
	if os.Getenv(child) != "" {
		waitBusyAndIdle()
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var theirs []*os.File
	pipe := func(mine int) *os.File {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		theirs = append(theirs, os.NewFile(uintptr(p[1-mine]), "theirs"))
		f := os.NewFile(uintptr(p[mine]), "mine")
		t.Cleanup(func() { f.Close() })
		return f
	}
	busy, ends, idle, answers := pipe(1), pipe(1), pipe(1), pipe(0)
	cmd := exec.Command(self, "-test.run=^TestNetpoller$")
	cmd.Env = append(os.Environ(), child+"=1")
	cmd.ExtraFiles, cmd.Stderr = theirs, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "it does nothing", func() bool { return threadsIn(cmd.Process.Pid, false) })
	write(t, busy)
	await(t, "a thread waits in the kernel", func() bool { return threadsIn(cmd.Process.Pid, true) })
	write(t, idle)
	answered := make(chan error, 1)
	go func() {
		_, err := answers.Read(make([]byte, 1))
		answered <- err
	}()
	select {
	case err := <-answered:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second): // the scheduler checks at least once a minute
		t.Error("other goroutines are not woken while one waits in the kernel")
	}
	ends.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// Files of the watched program, as numbered by os/exec.
const (
	busyFile = 3 + iota
	endsFile
	idleFile
	answersFile
)

// waitBusyAndIdle is a program with two goroutines that wait in the netpoller. The busy one then
// continues to wait in the kernel.
func waitBusyAndIdle() {
	threads := NewThreads(1)
	var both sync.WaitGroup
	both.Go(func() {
		epoll := watch(endsFile)
		ring(busyFile)
		threads.Enter()
		defer threads.Leave()
		waitInKernel(epoll)
	})
	both.Go(func() {
		ring(idleFile)
		unix.Write(answersFile, []byte{0})
	})
	both.Wait()
}

// ring waits for a bell, without a system call that the scheduler knows of.
func ring(fd int) {
	bell, err := NewBell(fd)
	if err == nil {
		err = bell.Wait()
	}
	if err != nil {
		panic(err)
	}
}

// watch returns an epoll(7) instance that reports when the other end of a pipe is closed.
func watch(fd int) (epoll int) {
	epoll, err := NewEpoll()
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLHUP})
	}
	if err != nil {
		panic(err)
	}
	return epoll
}

// waitInKernel waits for an event in a raw system call.
func waitInKernel(epoll int) {
	var event unix.EpollEvent
	for n := uintptr(0); n != 1; {
		var errno syscall.Errno
		n, _, errno = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&event)), 1, uintptr(Timeout.Milliseconds()), 0, 0)
		if errno != 0 {
			n = 0
		}
	}
}

// threadsIn reports whether a process has a thread that waits like waitInKernel. If inside is
// false, it reports whether all threads are idle, including the scheduler's own, which otherwise
// checks the others every 10 ms.
func threadsIn(pid int, inside bool) bool {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		fields := append(strings.Fields(string(text)), "", "", "", "", "")
		isPoll := fields[0] == strconv.Itoa(unix.SYS_EPOLL_PWAIT)
		switch {
		case inside && isPoll && fields[4] == fmt.Sprintf("%#x", Timeout.Milliseconds()):
			return true
		case !inside && !isPoll && fields[0] != strconv.Itoa(unix.SYS_FUTEX):
			return false
		}
	}
	return !inside && len(paths) > 1
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timeout: %s", what)
		}
	}
}

func write(t *testing.T, to *os.File) {
	t.Helper()
	if _, err := to.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
}
