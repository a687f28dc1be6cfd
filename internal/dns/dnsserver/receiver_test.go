package dnsserver

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"github.com/miekg/dns"
)

// TestReceivers: as many receivers as one address has sockets serve all addresses evenly, while
// addresses come and go, idle or busy.
func TestReceivers(t *testing.T) {
	const receivers = 2
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(before + receivers)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	s, addr := start(t, Config{UDPSockets: receivers, Threads: receivers, Handler: fixed("www.example.com. 60 A 192.0.2.1")})
	if err := s.Listen(nil); err != nil { // the port was picked above
		t.Fatal(err)
	}
	sockets := map[*receiver]bool{}
	for _, isBusy := range []bool{false, true} {
		for _, step := range []struct{ addresses, each int }{{1, 2}, {4, 2}, {2, 2}, {20, 1}, {1, 2}} {
			name := fmt.Sprintf("%d addresses, busy: %v", step.addresses, isBusy)
			var at []netip.AddrPort
			for i := range step.addresses {
				at = append(at, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(i + 1)}), addr.Port()))
			}
			if err := s.Listen(at); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var clients []*client
			for _, a := range at {
				clients = append(clients, dial(t, UDP, a))
			}
			for round := 0; round == 0 || isBusy && len(s.threads) == 0; round++ {
				for _, c := range clients {
					if r := c.exchange(query("www.example.com.", dns.TypeA)); r.Rcode != dns.RcodeSuccess {
						t.Fatalf("%s: %v", name, r)
					}
				}
			}
			total := 0
			clear(sockets)
			for _, u := range udpOf(s.bindings) {
				sockets[u.receiver] = true
				total++
			}
			if len(sockets) != receivers || step.addresses > 1 && total < step.addresses*step.each {
				t.Errorf("%s: %d sockets, %d receivers", name, total, len(sockets))
			}
			for r := range sockets {
				if n := r.count(); n < total/receivers || n > (total+1)/receivers {
					t.Errorf("%s: a receiver has %d of %d sockets", name, n, total)
				}
			}
		}
	}
}
