package dnsserver

import (
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// onProcessor runs f on the given CPU, on a thread of its own.
func onProcessor(t *testing.T, n int, f func()) {
	t.Helper()
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		var only unix.CPUSet
		only.Set(n)
		if failed = unix.SchedSetaffinity(0, &only); failed == nil {
			f()
		}
	}()
	<-done
	if failed != nil {
		t.Fatal(failed)
	}
}

// processors returns the CPUs that this process may run on.
func processors(t *testing.T) (all []int) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for n := 0; len(all) < set.Count(); n++ {
		if set.IsSet(n) {
			all = append(all, n)
		}
	}
	return all
}

// taken returns the number of queries that each UDP socket of the only address received.
func taken(s *Server) (counts []uint64) {
	for _, u := range udpOf(s.bindings) {
		counts = append(counts, u.tally.udpQueries.Load())
	}
	return counts
}

// checkSteered checks that each socket gets the queries of its CPUs and no others, from any client.
func checkSteered(t *testing.T, s *Server, sockets int) {
	t.Helper()
	addr := s.Listeners()[0].Addr
	of := map[int]int{} // socket index by CPU number modulo the number of sockets
	for _, n := range processors(t) {
		before := taken(s)
		if len(before) != sockets {
			t.Fatalf("%d sockets, want %d", len(before), sockets)
		}
		onProcessor(t, n, func() {
			for range 8 { // with different hashes
				dial(t, UDP, addr).exchange(query("www.example.com.", dns.TypeA))
			}
		})
		took := taken(s)
		for i := range took {
			took[i] -= before[i]
		}
		got := slices.Index(took, 8)
		if got < 0 {
			t.Errorf("the sockets received %[2]v X", n, took)
			continue
		}
		if old, known := of[n%sockets]; known && old != got {
			t.Errorf("CPU %d uses socket %d, another CPU with that remainder uses %d", n, got, old)
		}
		of[n%sockets] = got
	}
	seen := map[int]bool{}
	for remainder, socket := range of {
		if seen[socket] {
			t.Errorf("two remainders use socket %d, one of them is %d", socket, remainder)
		}
		seen[socket] = true
	}
}

// TestSteer: queries are steered by the CPU on which they arrive, even after a hand-over to the
// same number of sockets, to more, or to fewer.
func TestSteer(t *testing.T) {
	held := newHolder(t)
	at := anyPort
	for _, step := range []struct{ wanted, sockets int }{{1, 1}, {2, 2}, {2, 2}, {5, 5}, {3, 5}} {
		s := New(Config{UDPSockets: step.wanted, Sockets: held, Handler: fixed("www.example.com. 60 A 192.0.2.1"), Timeout: time.Hour})
		if err := s.Listen([]netip.AddrPort{at}); err != nil {
			t.Fatal(err)
		}
		at = s.Listeners()[0].Addr
		checkSteered(t, s, step.sockets)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestSteerRefused: if the kernel rejects the program, as for a socket that does not share its
// address, all clients are still served.
func TestSteerRefused(t *testing.T) {
	s := New(Config{UDPSockets: 2, Handler: fixed("www.example.com. 60 A 192.0.2.1"), Timeout: time.Hour})
	s.SetTerms(Taking)
	if err := s.Listen([]netip.AddrPort{anyPort}); err != nil {
		t.Fatal(err)
	}
	all := udpOf(s.bindings)
	if err := steer(all); err == nil {
		t.Error("the kernel accepted the program")
	}
	dial(t, UDP, s.Listeners()[0].Addr).exchange(query("www.example.com.", dns.TypeA))
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
