package policy

import (
	"math"
	"testing"
)

func TestRoom(t *testing.T) {
	tests := []struct {
		name                 string
		files, listeners     int
		tcp, listen, forward int
	}{
		{"no limit", 0, 1, 1000, 1024, math.MaxInt},
		{"systemd 240 and later", 524288, 2, 1000, 1024, 130805},
		{"LimitNOFILE= of node-dns.service, for dnsForwardMax 10000", 65536, 2, 1000, 1024, 16117},
		{"RHEL 7: systemd 219", 4096, 2, 1000, 758, 757},
		{"soft limit of 1024", 1024, 2, 240, 180, 179},
		{"listen: all on a node with an address for each of 500 pods", 4096, 500, 1000, 758, 508},
		{"very low limit", 64, 2, 16, 16, 16},
	}
	for _, test := range tests {
		if got := RoomForTCP(test.files); got != test.tcp {
			t.Errorf("%s: got room for %d connections, want %d", test.name, got, test.tcp)
		}
		if got := roomToListen(test.files); got != test.listen {
			t.Errorf("%s: got room for %d addresses, want %d", test.name, got, test.listen)
		}
		if got := roomToForward(test.files, test.listeners); got != test.forward {
			t.Errorf("%s: got room for %d queries, want %d", test.name, got, test.forward)
		}
	}
}
