package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Manager acts as the service manager for one program, where systemd in a Container would be too
// slow or is not available. It holds the files that the program stores (sd_notify(3), FDSTORE=1)
// and passes them to the next process. It needs no machine. The program ends with the test. If the
// test fails, its output is logged.
type Manager struct {
	t      testing.TB
	argv   []string
	env    []string
	room   int
	socket *net.UnixConn
	output *os.File
	read   sync.WaitGroup

	process *exec.Cmd // nil if it does not run

	mu      sync.Mutex // guards the fields below
	held    []heldFile
	ready   bool
	settled chan struct{} // closed when all earlier messages were processed
}

// heldFile is not an os.File, because os.File.Fd makes a socket blocking, including for the program
// that shares it.
type heldFile struct {
	name string
	fd   int
}

// NewManager returns a manager that can hold room files (FileDescriptorStoreMax=). It does not
// start the program. env is added to this process's environment.
func NewManager(t testing.TB, room int, env []string, argv ...string) *Manager {
	t.Helper()
	path := filepath.Join(ShortDir(t), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	output, err := unnamedFile()
	if err != nil {
		t.Fatal(err)
	}
	m := &Manager{t: t, argv: argv, env: append(slices.Clone(env), "NOTIFY_SOCKET="+path), room: room, socket: socket, output: output}
	m.read.Go(m.listen)
	t.Cleanup(m.close)
	return m
}

// Start starts the program with the held files and returns when it is ready.
func (m *Manager) Start() {
	m.t.Helper()
	names, files := m.passed()
	// $$ is the program's own process id, because the shell execs it.
	m.process = exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`}, m.argv...)...)
	m.process.Env = slices.Concat(os.Environ(), m.env)
	if len(files) > 0 {
		m.process.Env = append(m.process.Env, fmt.Sprintf("LISTEN_FDS=%d", len(files)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	}
	m.process.ExtraFiles, m.process.Stdout, m.process.Stderr = files, m.output, m.output
	if err := m.process.Start(); err != nil {
		m.t.Fatalf("starting %v: %v", m.argv, err)
	}
	for _, file := range files {
		file.Close()
	}
	if !Poll(20*time.Second, m.isReady) {
		m.t.Fatalf("timed out waiting for %v to be ready", m.argv)
	}
}

// passed returns duplicates of the held files, for the next process.
func (m *Manager) passed() (names []string, files []*os.File) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ready = false
	for _, held := range m.held {
		names, files = append(names, held.name), append(files, os.NewFile(uintptr(m.duplicate(held.fd)), held.name))
	}
	return names, files
}

func (m *Manager) duplicate(fd int) int {
	m.t.Helper()
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	return again
}

func (m *Manager) isReady() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ready
}

// End sends a signal and returns how the program ended.
func (m *Manager) End(signal syscall.Signal) error {
	m.t.Helper()
	if err := m.process.Process.Signal(signal); err != nil {
		m.t.Fatalf("%v: %v", signal, err)
	}
	err := m.process.Wait()
	m.process = nil
	m.settle()
	return err
}

// settle returns when all messages of the program have been processed. Like systemd, the manager
// reads notifications before it notices the end of a process.
func (m *Manager) settle() {
	m.t.Helper()
	settled := make(chan struct{})
	m.mu.Lock()
	m.settled = settled
	m.mu.Unlock()
	conn, err := net.DialUnix("unixgram", nil, m.socket.LocalAddr().(*net.UnixAddr))
	if err != nil {
		m.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(settledMessage + "=1")); err != nil {
		m.t.Fatal(err)
	}
	<-settled
}

// settledMessage is not part of sd_notify(3).
const settledMessage = "LAB_SETTLED"

// Held returns the names of the held files, sorted.
func (m *Manager) Held() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for _, held := range m.held {
		names = append(names, held.name)
	}
	slices.Sort(names)
	return names
}

// Hold makes the manager hold a file from the start, like that of a socket unit.
func (m *Manager) Hold(name string, fd int) {
	m.t.Helper()
	m.store(name, m.duplicate(fd))
}

// Forget closes the files with this name.
func (m *Manager) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = slices.DeleteFunc(m.held, func(held heldFile) bool {
		if held.name == name {
			unix.Close(held.fd)
		}
		return held.name == name
	})
}

// PID returns the program's process id.
func (m *Manager) PID() int { return m.process.Process.Pid }

// Output returns the output of the program so far, of all its runs.
func (m *Manager) Output() string { return (&Process{output: m.output}).Output() }

func (m *Manager) close() {
	if m.process != nil {
		m.process.Process.Kill()
		m.process.Wait()
	}
	m.socket.Close()
	m.read.Wait()
	for _, held := range m.held {
		unix.Close(held.fd)
	}
	if m.t.Failed() {
		m.t.Logf("---- %v\n%s", m.argv, m.Output())
	}
	m.output.Close()
}

func (m *Manager) listen() {
	buf, rights := make([]byte, 4096), make([]byte, 4096)
	for {
		n, size, _, _, err := m.socket.ReadMsgUnix(buf, rights)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		var fds []int
		if messages, err := unix.ParseSocketControlMessage(rights[:size]); err == nil {
			for _, message := range messages {
				more, _ := unix.ParseUnixRights(&message) // other messages have no rights
				fds = append(fds, more...)
			}
		}
		m.hear(parseNotification(string(buf[:n])), fds)
	}
}

func parseNotification(text string) map[string]string {
	said := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		said[key] = value
	}
	return said
}

// hear processes one message. It closes files that it does not hold, such as that of BARRIER=1.
func (m *Manager) hear(said map[string]string, fds []int) {
	if said["READY"] == "1" {
		m.mu.Lock()
		m.ready = true
		m.mu.Unlock()
	}
	if said[settledMessage] == "1" {
		m.mu.Lock()
		close(m.settled)
		m.mu.Unlock()
	}
	if said["FDSTOREREMOVE"] == "1" {
		m.Forget(said["FDNAME"])
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
		if said["FDSTORE"] == "1" {
			m.store(said["FDNAME"], fd)
		} else {
			unix.Close(fd)
		}
	}
}

// store holds a file, unless it is already held or there is no room.
func (m *Manager) store(name string, fd int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	same := func(have heldFile) bool {
		// kcmp(2) reports whether two descriptors refer to the same open file.
		pid := uintptr(os.Getpid())
		r, _, errno := unix.Syscall6(unix.SYS_KCMP, pid, pid, 0, uintptr(have.fd), uintptr(fd), 0) // KCMP_FILE
		return errno == 0 && r == 0
	}
	if len(m.held) >= m.room || slices.ContainsFunc(m.held, same) {
		unix.Close(fd)
		return
	}
	m.held = append(m.held, heldFile{name, fd})
}
