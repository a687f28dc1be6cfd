package nspawn

import (
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestMachine logs the versions that the tests ran on. The environment of another tree names its
// expected systemd version.
func TestMachine(t *testing.T) {
	n := lab.New(t).Container("node")
	n.Boot()
	systemd, _, _ := strings.Cut(n.Run("systemctl", "--version"), "\n")
	t.Logf("%s, NetworkManager %s", systemd, n.Run("NetworkManager", "--version"))
	if want := os.Getenv("NODEDNS_SYSTEMD"); !strings.HasPrefix(systemd, "systemd "+want) {
		t.Errorf("got %s, want %s", systemd, want)
	}
}
