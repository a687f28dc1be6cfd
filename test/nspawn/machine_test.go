package nspawn

import (
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestMachine says what the tests beside it ran on. Who makes the machines of another tree says which systemd that has.
func TestMachine(t *testing.T) {
	n := lab.New(t).Container("node")
	n.Boot()
	systemd, _, _ := strings.Cut(n.Run("systemctl", "--version"), "\n")
	t.Logf("%s, NetworkManager %s", systemd, n.Run("NetworkManager", "--version"))
	if want := os.Getenv("NODEDNS_SYSTEMD"); !strings.HasPrefix(systemd, "systemd "+want) {
		t.Errorf("%s, expected %s", systemd, want)
	}
}
