package nodeconfig

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestLoadKinds: Load returns and names the path, whatever kind of file is there. A FIFO once
// blocked the hook and the daemon forever.
func TestLoadKinds(t *testing.T) {
	socket := func(path string) error {
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return err
		}
		listener.SetUnlinkOnClose(false)
		return listener.Close()
	}
	tests := []struct {
		name string
		make func(path string) error
		want string // expected in the error, with the path
	}{
		{"FIFO", func(path string) error { return unix.Mkfifo(path, 0o644) }, "expected a regular file, got a FIFO"},
		{"directory", func(path string) error { return os.Mkdir(path, 0o755) }, "expected a regular file, got a directory"},
		{"socket", socket, "expected a regular file, got a socket"},
		{"endless device", func(path string) error { return os.Symlink("/dev/zero", path) }, "expected a regular file, got a device"},
		{"too large", func(path string) error { return os.WriteFile(path, make([]byte, 8*maxFile), 0o644) }, "expected a file of at most 1 MiB"},
	}
	for _, test := range tests {
		for _, file := range []string{"NodeConfig", "Bootstrap", "Kubelet", "NodeDNS"} {
			t.Run(test.name+" as "+file, func(t *testing.T) {
				root := lab.ShortDir(t)
				path := pathOf(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := test.make(path); err != nil {
					t.Fatal(err)
				}
				_, err := Load(DefaultPaths(root))
				if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}
