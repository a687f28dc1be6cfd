package faultplan

import (
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// rate is the default number of questions per second from the clients of a row.
const rate = 200

// Rate and window for large numbers of questions: limited by the window if answers are slower.
const (
	fast   = 10_000
	window = 100
)

// distinct queries a new name each time.
func distinct(prefix string) []dnstest.Ask {
	return []dnstest.Ask{{Name: prefix + "%d.example.", Type: dns.TypeA, Want: address}}
}

// crowd returns the addresses of n clients.
func crowd(n int) (clients []netip.Addr) {
	for i := range n {
		clients = append(clients, netip.AddrFrom4([4]byte{127, 0, byte(1 + i/250), byte(1 + i%250)}))
	}
	return clients
}

// ask sends queries at a steady rate, from the four clients of a small node, while during runs. The
// answers go into the tally unless Each is set.
func (s *stage) ask(l dnstest.Load, into *tally, during func()) error {
	l.Server = s.program.At
	if l.Each == nil {
		l.Each = into.take
	}
	if l.Rate == 0 {
		l.Rate = rate
	}
	if l.Clients == nil {
		l.Clients = crowd(4)
	}
	loading, err := l.Start()
	if err != nil {
		return err
	}
	during()
	var done dnstest.Tally
	if l.Count > 0 {
		done = loading.Wait()
	} else {
		done = loading.Stop()
	}
	into.mu.Lock()
	defer into.mu.Unlock()
	into.o.Behind = max(into.o.Behind, done.Behind)
	return nil
}

// once sends count questions at once, each from its own socket if there are enough clients.
func (s *stage) once(count int, asks []dnstest.Ask, clients []netip.Addr) dnstest.Load {
	const allAtOnce = 20_000
	return dnstest.Load{Rate: allAtOnce, Count: count, Asks: asks, Clients: clients, Sockets: len(clients)}
}

// pass waits for a part of the fault's duration.
func (s *stage) pass(part float64) { time.Sleep(time.Duration(part * float64(s.size.Length))) }
