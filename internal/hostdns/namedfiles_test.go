package hostdns

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestRecursive: an unreadable file of nameservers was silently treated as empty.
func TestRecursive(t *testing.T) {
	t.Parallel()
	const list = "nameserver 192.0.2.7\nnameserver 0.0.0.0\nnameserver 2001:db8::7\n"
	const key = "ignoring dnsRecursiveResolvConf /etc/origin/node/node-config.yaml:1: "
	tests := []struct {
		name    string
		path    string
		make    func(path string) error
		servers string
		problem string // FILE stands for the path
	}{
		{name: "none"},
		{name: "node-dns's list of captured servers", path: "/etc/origin/node/resolv.conf", make: text("nameserver 192.0.2.7\n")},
		{name: "the host's resolv.conf", path: "/etc/resolv.conf", make: text("nameserver 192.0.2.7\n")},
		{
			// It only names this node.
			name: "a copy of our resolv.conf", path: "/etc/dns/up.conf",
			make: text(Watermark + "\nnameserver 192.0.2.10\n"),
		},
		{name: "an admin's file", path: "/etc/dns/up.conf", make: text(list), servers: "192.0.2.7,2001:db8::7"},
		{name: "missing", path: "/etc/dns/up.conf", problem: key + "FILE does not exist"},
		{name: "without a nameserver", path: "/etc/dns/up.conf", make: text("# none\n"), problem: key + "FILE lists no nameserver"},
		{
			name: "a FIFO", path: "/etc/dns/up.conf", make: func(path string) error { return unix.Mkfifo(path, 0o644) },
			problem: key + "opening FILE: expected a regular file, got a FIFO",
		},
		{
			name: "readable only by root", path: "/etc/dns/up.conf", make: func(path string) error { return errors.Join(text(list)(path), os.Chmod(path, 0)) },
			problem: key + "open FILE: permission denied",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := lab.OpenDir(t)
			config := nodeconfig.Config{Sources: map[string]nodeconfig.Source{}}
			path := filepath.Join(root, test.path)
			if test.path != "" {
				config.DNSRecursiveResolvConf = path
				config.Sources["dnsRecursiveResolvConf"] = nodeconfig.Source{File: "/etc/origin/node/node-config.yaml", Line: 1}
			}
			if test.make != nil {
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), test.make(path)); err != nil {
					t.Fatal(err)
				}
			}
			lab.AsNobody(func() {
				servers, problem := NewPaths(root).Recursive(config)
				var words []string
				for _, server := range servers {
					words = append(words, server.String())
				}
				got := []string{strings.Join(words, ","), strings.ReplaceAll(problem, path, "FILE")}
				if diff := cmp.Diff([]string{test.servers, test.problem}, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func text(text string) func(path string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }
}
