package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestOpen: opening anything that is not a regular file fails with its type and does not block. The
// hook and the daemon both hung on a FIFO in place of a configuration file.
func TestOpen(t *testing.T) {
	tests := []struct {
		name string
		make func(path string) error
		got  string // text in the error; "" if the file is opened
		is   error
	}{
		{name: "a file", make: func(path string) error { return os.WriteFile(path, []byte("text"), 0o644) }},
		{name: "a link to a file", make: func(path string) error {
			return errors.Join(os.WriteFile(path+".d", []byte("text"), 0o644), os.Symlink(path+".d", path))
		}},
		{name: "nothing", make: func(string) error { return nil }, got: "no such file", is: fs.ErrNotExist},
		{name: "a FIFO", make: func(path string) error { return unix.Mkfifo(path, 0o644) }, got: "a FIFO", is: ErrNotRegular},
		{name: "a directory", make: func(path string) error { return os.Mkdir(path, 0o755) }, got: "a directory", is: ErrNotRegular},
		{name: "a link to a device without an end", make: func(path string) error { return os.Symlink("/dev/zero", path) }, got: "a device", is: ErrNotRegular},
		{name: "a socket", make: func(path string) error {
			socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				return err
			}
			socket.SetUnlinkOnClose(false)
			return socket.Close()
		}, got: "a socket", is: ErrNotRegular},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(lab.ShortDir(t), "file")
			if err := test.make(path); err != nil {
				t.Fatal(err)
			}
			file, info, err := Open(path)
			if err != nil {
				if test.got == "" || !strings.Contains(err.Error(), test.got) || !strings.Contains(err.Error(), path) || !errors.Is(err, test.is) {
					t.Errorf("got %v", err)
				}
				return
			}
			defer file.Close()
			text, err := io.ReadAll(file)
			if test.got != "" || err != nil || string(text) != "text" || info.Size() != 4 {
				t.Errorf("got %q of %d bytes, %v", text, info.Size(), err)
			}
		})
	}
}
