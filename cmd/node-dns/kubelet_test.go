package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestKubeletToldKeepsSecrets: explain, run by root, used to send the text of any file named on a
// command line to the control socket.
func TestKubeletToldKeepsSecrets(t *testing.T) {
	if os.Geteuid() != 0 {
		lab.Skip(t, "needs root, which may read everything")
	}
	const nobody = 65534
	const text = "root:$6$secret:20228::\nnameserver 192.0.2.1\nsearch a.example\noptions ndots:3\n"
	for _, row := range []struct {
		name  string
		spoil func(dir, file string) error
		sent  bool // the DNS settings of the file
	}{
		{"root's file, closed to others", func(string, string) error { return nil }, true},
		{"another's, open to all", func(_, file string) error {
			return errors.Join(os.Chown(file, nobody+1, nobody+1), os.Chmod(file, 0o644))
		}, true},
		{"another's, closed", func(_, file string) error { return os.Chown(file, nobody+1, nobody+1) }, false},
		{"root's file in another user's directory", func(dir, _ string) error { return os.Chown(dir, nobody+1, nobody+1) }, false},
		{"another's link to root's", func(dir, file string) error {
			return errors.Join(os.Rename(file, filepath.Join(dir, "real")), os.Symlink("real", file), os.Lchown(file, nobody+1, nobody+1))
		}, false},
		{"another kind of file, world-readable", func(_, file string) error {
			return errors.Join(os.WriteFile(file, []byte("root:$6$secret:20228::\n"), 0o600), os.Chmod(file, 0o644))
		}, false},
	} {
		for _, flag := range []string{"--resolv-conf", "--config"} {
			t.Run(row.name+" "+flag, func(t *testing.T) {
				root := lab.OpenDir(t)
				dir := filepath.Join(root, "dir")
				file := filepath.Join(dir, "file")
				for path, data := range map[string]string{
					"dir/file": text, "proc/90/comm": "kubelet\n", "proc/90/status": "Uid:\t0\t0\t0\t0\n", "proc/90/cmdline": "kubelet\x00" + flag + "=/dir/file\x00",
				} {
					if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755), os.WriteFile(filepath.Join(root, path), []byte(data), 0o600)); err != nil {
						t.Fatal(err)
					}
				}
				if err := row.spoil(dir, file); err != nil {
					t.Fatal(err)
				}
				told := kubeletTold(root)
				if told == nil {
					t.Fatal("no kubelet found")
				}
				sent, err := json.Marshal(told)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(sent), "secret") {
					t.Errorf("sent: %s", sent)
				}
				const fields = `"nameservers":["192.0.2.1"],"search":["a.example"],"options":["ndots:3"]`
				if flag == "--resolv-conf" && strings.Contains(string(sent), fields) != row.sent {
					t.Errorf("want its fields sent: %v; sent: %s", row.sent, sent)
				}
			})
		}
	}
}
