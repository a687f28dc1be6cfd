package dnsserver

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

func TestReasons(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "listen", Net: "udp4", Err: os.NewSyscallError("bind", unix.EADDRINUSE)}, "bind: address already in use"},
		{
			&net.OpError{Op: "listen", Net: "udp4", Err: os.NewSyscallError("bind", unix.EACCES)},
			"bind: permission denied (ports below 1024 need root or CAP_NET_BIND_SERVICE)",
		},
		{errors.New("odd"), "odd"},
	}
	for _, test := range tests {
		if got := reasonOf(test.err).Error(); got != test.want {
			t.Errorf("%v: got %q, want %q", test.err, got, test.want)
		}
	}
	if reasonOf(nil) != nil {
		t.Error("got a reason for a nil error")
	}
}

// TestSharedPort: port 0 never picks a port that another socket shares. A server that had left kept
// its sockets open until its process ended. One in 10,000 servers started after it got no queries,
// because the kernel delivered them to the sockets of the one that had left.
func TestSharedPort(t *testing.T) {
	lc := net.ListenConfig{Control: shared}
	silent, err := lc.ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	addr := silent.LocalAddr().(*net.UDPAddr).AddrPort()
	s := New(Config{})
	defer s.Shutdown(t.Context())
	if b := s.bind(anyPort, addr, UDP); !errors.Is(b.err, unix.EADDRINUSE) {
		t.Errorf("port 0: %v", b.err)
	}
	b := s.bind(addr, addr, UDP)
	if b.err != nil {
		t.Fatalf("a given port: %v", b.err)
	}
	_ = drainAll(t.Context(), []*binding{b})
}

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
