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

// onProcessor runs f on one processor. The thread ends with it.
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

// processors are those that this process may run on.
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

// taken is how many queries each UDP socket of the only address has taken.
func taken(s *Server) (counts []uint64) {
	for _, u := range udpOf(s.bindings) {
		counts = append(counts, u.tally.udpQueries.Load())
	}
	return counts
}

// checkSteered holds that each socket gets the queries of its processors, whoever asks, and no others.
func checkSteered(t *testing.T, s *Server, sockets int) {
	t.Helper()
	addr := s.Listeners()[0].Addr
	of := map[int]int{} // socket by the remainder of the processor
	for _, n := range processors(t) {
		before := taken(s)
		if len(before) != sockets {
			t.Fatalf("%d sockets, want %d", len(before), sockets)
		}
		onProcessor(t, n, func() {
			for range 8 { // whose hashes differ
				dial(t, UDP, addr).exchange(query("www.example.com.", dns.TypeA))
			}
		})
		took := taken(s)
		for i := range took {
			took[i] -= before[i]
		}
		got := slices.Index(took, 8)
		if got < 0 {
			t.Errorf("of 8 queries on processor %d the sockets took %v", n, took)
			continue
		}
		if old, known := of[n%sockets]; known && old != got {
			t.Errorf("processor %d has socket %d, another with that remainder %d", n, got, old)
		}
		of[n%sockets] = got
	}
	seen := map[int]bool{}
	for remainder, socket := range of {
		if seen[socket] {
			t.Errorf("two remainders have socket %d, one of them %d", socket, remainder)
		}
		seen[socket] = true
	}
}

// TestSteer: queries go by the processor that they come in on, also after a hand-over, to as many sockets as there were, more, or fewer.
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

// TestSteerRefused: where the kernel refuses the program, as of a socket that shares its address with none, all are served.
func TestSteerRefused(t *testing.T) {
	s := New(Config{UDPSockets: 2, Handler: fixed("www.example.com. 60 A 192.0.2.1"), Timeout: time.Hour})
	s.SetTerms(Taking)
	if err := s.Listen([]netip.AddrPort{anyPort}); err != nil {
		t.Fatal(err)
	}
	all := udpOf(s.bindings)
	if err := steer(all); err == nil {
		t.Error("the kernel takes the program")
	}
	dial(t, UDP, s.Listeners()[0].Addr).exchange(query("www.example.com.", dns.TypeA))
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
