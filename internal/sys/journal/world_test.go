package journal

import (
	"encoding/binary"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// world is a fake journald that reads on demand: a socket for entries and a stream for lines.
type world struct {
	t       *testing.T
	sender  *sender
	entries int // descriptor that receives entries
	lines   int // descriptor that receives lines
}

func newWorld(t *testing.T) *world {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	entries, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(entries, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	stream, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, sender: &sender{socket: path, stderr: stream[0], fd: -1}, entries: entries, lines: stream[1]}
	t.Cleanup(func() {
		for _, fd := range []int{w.entries, stream[0], stream[1], w.sender.fd} {
			if fd >= 0 {
				_ = unix.Close(fd)
			}
		}
	})
	return w
}

func (w *world) logger() *slog.Logger {
	return slog.New(newHandler(w.sender, "node-dns", "a.service", slog.LevelDebug))
}

// entry returns the next entry, or nil if there is none.
func (w *world) entry() fields {
	w.t.Helper()
	buf := make([]byte, 2*maxEntry)
	n, _, err := unix.Recvfrom(w.entries, buf, unix.MSG_DONTWAIT)
	if err != nil {
		return nil
	}
	got, ok := parse(buf[:n])
	if !ok {
		w.t.Fatalf("journald cannot read %q", buf[:n])
	}
	return got
}

// text returns everything written to stderr so far.
func (w *world) text() string {
	var all strings.Builder
	buf := make([]byte, 1<<20)
	for {
		n, _, err := unix.Recvfrom(w.lines, buf, unix.MSG_DONTWAIT)
		if err != nil || n == 0 {
			return all.String()
		}
		all.Write(buf[:n])
	}
}

// fields are the fields of an entry in order.
type fields [][2]string

func (f fields) get(name string) string {
	for _, field := range f {
		if field[0] == name {
			return field[1]
		}
	}
	return ""
}

// parse parses the native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL) as journald does,
// independently of entry.add.
func parse(data []byte) (all fields, ok bool) {
	for rest := string(data); rest != ""; {
		line, after, ended := strings.Cut(rest, "\n")
		if !ended {
			return nil, false
		}
		name, value, plain := strings.Cut(line, "=")
		if !plain {
			if len(after) < 8 {
				return nil, false
			}
			size := binary.LittleEndian.Uint64([]byte(after[:8]))
			after = after[8:]
			if uint64(len(after)) < size+1 || after[size] != '\n' {
				return nil, false
			}
			value, after = after[:size], after[size+1:]
		}
		all = append(all, [2]string{name, value})
		rest = after
	}
	return all, true
}
