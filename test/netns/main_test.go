// Package netns tests the two programs together with a real NetworkManager, a real DHCP server and
// real nameservers. The tests imitate systemd's part: the path unit that runs the dispatcher when
// the daemon requests it.
package netns

import (
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestMain(m *testing.M) {
	lab.Main(m, lab.Machines(2), lab.Build("./cmd/origin-dns-dispatcher", "./cmd/node-dns-intercept", "./test/netns/testdata/lookup"), lab.BuildRace("./cmd/node-dns"))
}
