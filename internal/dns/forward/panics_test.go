package forward

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestPanics: a panic anywhere on the way to an answer and back costs at most that answer, and is
// counted and logged. The next questions are answered by the same lanes and flights.
func TestPanics(t *testing.T) {
	t.Parallel()
	const internal, answer = "SERVFAIL no response from SERVER (internal error)", "NOERROR 192.0.2.80"
	for name, row := range map[string]struct {
		faults dnstest.Faults
		lanes  int
		ignore bool // Config.Ignore panics
		answer bool // Config.Answered does
		change bool // Config.Changed does
		want   string
	}{
		"goroutine of a try":                    {ignore: true, want: internal},
		"lane watcher, then goroutine of a try": {lanes: 2, faults: dnstest.Faults{Rcode: dns.RcodeRefused}, ignore: true, want: internal},
		"receiver of a lane reply":              {lanes: 2, answer: true, want: answer},
		"server state callback":                 {faults: dnstest.Faults{Drop: true}, change: true, want: "SERVFAIL "},
		"server state callback in a lane":       {lanes: 2, faults: dnstest.Faults{Drop: true}, change: true, want: "SERVFAIL "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, addresses := startServers(t, 1)
			servers[0].SetFaults(row.faults)
			var broken atomic.Bool
			broken.Store(true)
			trip := func(here bool) {
				if here && broken.Load() {
					panic("out of cheese")
				}
			}
			log := new(lab.Text)
			var s *laneServer
			s = newLaneServer(t, func(c *Config) {
				patient(c)
				if row.faults.Drop {
					c.Hedge, c.TryTimeout, c.Deadline = 10e6, 20e6, 200e6
				}
				c.Lanes, c.Log = row.lanes, logger(log)
				c.Ignore = func(*dns.Msg) error { trip(row.ignore); return nil }
				c.Changed = func() { trip(row.change) }
				c.Answered = func(r Reply) { trip(row.answer); s.answered(r) }
			}, addresses...)
			for i := range 8 {
				got := strings.Replace(resultText(t, s), addresses[0].String(), "SERVER", 1)
				if !strings.HasPrefix(got, row.want) {
					t.Errorf("question %d: %s, expected %s", i, got, row.want)
				}
			}
			panics := s.f.Stats().Panics
			if lines := strings.Count(log.String(), "msg=\"asking a nameserver panicked\""); panics == 0 || lines == 0 || lines > 4 {
				t.Errorf("%d panics, logged %d times:\n%s", panics, lines, log.String())
			}
			if !strings.Contains(log.String(), "panics_test.go") || !strings.Contains(log.String(), "condition=query-panic") {
				t.Errorf("the log does not show the location:\n%s", log.String())
			}
			broken.Store(false)
			servers[0].SetFaults(dnstest.Faults{})
			await(t, "an answer afterwards", func() bool { return resultText(t, s) == answer })
			await(t, "nothing in flight", func() bool { return s.f.flights.n.Load() == 0 })
		})
	}
}

// resultText returns the client's result for www.example.: rcode, addresses and the error text.
func resultText(t *testing.T, s *laneServer) string {
	t.Helper()
	m := dnstest.Exchange(t, s.addr, "www.example.", dns.TypeA, dnstest.EDNS(1232))
	text := dns.RcodeToString[m.Rcode]
	for _, rr := range m.Answer {
		text += " " + rr.(*dns.A).A.String()
	}
	if opt := m.IsEdns0(); opt != nil {
		for _, option := range opt.Option {
			text += " " + option.(*dns.EDNS0_EDE).ExtraText
		}
	}
	return text
}
