package forward

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestFirstServerMisbehaves: the first of two nameservers misbehaves, in every way seen in
// practice. The client still gets the right answer, from the expected server.
func TestFirstServerMisbehaves(t *testing.T) {
	t.Parallel()
	const a, b, either = "a", "b", "" // either: an invalid response makes us query the other server at once
	rows := []struct {
		name    string
		faults  dnstest.Faults
		from    string
		ignored bool // an invalid response was rejected
	}{
		{name: "behaves", from: a},
		{name: "silent", faults: dnstest.Faults{Drop: true}, from: b},
		{name: "SERVFAIL", faults: dnstest.Faults{Rcode: dns.RcodeServerFailure}, from: b},
		{name: "REFUSED", faults: dnstest.Faults{Rcode: dns.RcodeRefused}, from: b},
		{name: "NOTIMP", faults: dnstest.Faults{Rcode: dns.RcodeNotImplemented}, from: b},
		{name: "FORMERR", faults: dnstest.Faults{Rcode: dns.RcodeFormatError}, from: b},
		{name: "wrong ID", faults: dnstest.Faults{WrongID: true}, from: b, ignored: true},
		{name: "wrong name", faults: dnstest.Faults{WrongQuestion: true}, from: b, ignored: true},
		{name: "wrong type", faults: dnstest.Faults{WrongType: true}, from: b, ignored: true},
		{name: "no question", faults: dnstest.Faults{NoQuestion: true}, from: b, ignored: true},
		{name: "wrong source", faults: dnstest.Faults{WrongSource: true}, from: b},
		{name: "garbage", faults: dnstest.Faults{Garbage: true}, from: b, ignored: true},
		{name: "zero octets", faults: dnstest.Faults{Empty: true}, from: b, ignored: true},
		{name: "half a datagram", faults: dnstest.Faults{CutUDP: true}, from: a, ignored: true},
		{name: "200 wrong IDs, then right", faults: dnstest.Faults{WrongID: true, Copies: 200, ThenOK: true}, from: either, ignored: true},
		{name: "wrong name, then right", faults: dnstest.Faults{WrongQuestion: true, ThenOK: true}, from: either, ignored: true},
		{name: "no question, then right", faults: dnstest.Faults{NoQuestion: true, ThenOK: true}, from: either, ignored: true},
		{name: "garbage, then right (TuDoor)", faults: dnstest.Faults{Garbage: true, ThenOK: true}, from: either, ignored: true},
		{name: "zero bytes, then right", faults: dnstest.Faults{Empty: true, ThenOK: true}, from: either, ignored: true},
		{name: "wrong source, then right", faults: dnstest.Faults{WrongSource: true, ThenOK: true}, from: a},
		{name: "truncated", faults: dnstest.Faults{Truncate: true}, from: a},
		{name: "truncated, TCP closed after the query", faults: dnstest.Faults{Truncate: true, CloseTCP: true}, from: b},
		{name: "truncated, TCP reset in the message", faults: dnstest.Faults{Truncate: true, ResetTCP: true}, from: b},
		{name: "FORMERR to EDNS", faults: dnstest.Faults{FormErrOnEDNS: true}, from: a},
		{name: "FORMERR to EDNS, header only", faults: dnstest.Faults{FormErrOnEDNS: true, NoQuestion: true}, from: a},
		{name: "NOTIMP to EDNS", faults: dnstest.Faults{NotImpOnEDNS: true}, from: a},
		{name: "BADVERS to EDNS", faults: dnstest.Faults{BadVersOnEDNS: true}, from: a},
		{name: "BADCOOKIE", faults: dnstest.Faults{Rcode: dns.RcodeBadCookie}, from: b},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			change := patient // a server that answers at once must win even on a slow machine
			if row.from == b {
				change = func(c *Config) {
					c.Deadline = 30 * time.Second
					if row.faults.Rcode != 0 {
						c.TryTimeout = c.Deadline // after a refusal, the other server has this long
					}
				}
			}
			servers, addresses := startServers(t, 2)
			servers[0].SetFaults(row.faults)
			f := newForward(t, change, addresses...)
			want := map[string]nameserver.Server{a: addresses[0], b: addresses[1]}[row.from]
			if from := mustAnswer(t, f); row.from != either && from != want {
				t.Errorf("answered by %v, want %v", from, want)
			}
			// On a slow machine b may answer before a's response arrives. A new Forward queries a
			// first again.
			for again := 0; row.ignored && f.Stats().Ignored == 0 && again < 20; again++ {
				f = newForward(t, change, addresses...)
				mustAnswer(t, f)
			}
			if got := f.Stats().Ignored > 0; got != row.ignored {
				t.Errorf("ignored %d messages", f.Stats().Ignored)
			}
		})
	}
}

// TestClosedPortIsNotWaitedFor: if the port is closed, the kernel reports it at once, and the next
// server is queried long before the try times out.
func TestClosedPortIsNotWaitedFor(t *testing.T) {
	servers, addresses := startServers(t, 2)
	servers[0].Down()
	f := newForward(t, patient, addresses...)
	if from := mustAnswer(t, f); from != addresses[1] {
		t.Errorf("got an answer from %v", from)
	}
	if s := stateOf(f, addresses[0]); s.Failures != 1 || s.LastError != "connection refused" || s.State != exchange.Unknown {
		t.Errorf("got status %+v", s)
	}
}

// TestTruncatedAndTCPRefused: the same with only TCP closed, which matters only to truncated
// responses.
func TestTruncatedAndTCPRefused(t *testing.T) {
	servers, addresses := startServers(t, 2)
	servers[0].SetFaults(dnstest.Faults{Truncate: true})
	servers[0].RefuseTCP()
	f := newForward(t, patient, addresses...)
	if from := mustAnswer(t, f); from != addresses[1] {
		t.Errorf("got an answer from %v", from)
	}
}

// TestLateResponseIsTaken: a response that arrives after the next server was queried is still
// accepted.
func TestLateResponseIsTaken(t *testing.T) {
	t.Parallel()
	servers, addresses := startServers(t, 2)
	servers[0].SetFaults(dnstest.Faults{Delay: 300 * time.Millisecond})
	servers[1].SetFaults(dnstest.Faults{Drop: true})
	f := newForward(t, func(c *Config) { c.Deadline = 20 * time.Second }, addresses...)
	if from := mustAnswer(t, f); from != addresses[0] {
		t.Errorf("got an answer from %v", from)
	}
	if servers[1].Queries() == 0 {
		t.Error("the second server got no query")
	}
}

// TestSilentAtFirst: lost queries are sent again, even with a single server.
func TestSilentAtFirst(t *testing.T) {
	servers, addresses := startServers(t, 1)
	servers[0].SetFaultsFor("www.example.", dnstest.Faults{Drop: true, First: 2})
	mustAnswer(t, newForward(t, nil, addresses...))
	if n := servers[0].QueriesFor("www.example.", dns.TypeA); n != 3 {
		t.Errorf("got %d upstream queries", n)
	}
}

func TestWhenAllFailWithAResponse(t *testing.T) {
	for _, rcode := range []int{dns.RcodeServerFailure, dns.RcodeRefused, dns.RcodeNotImplemented} {
		t.Run(dns.RcodeToString[rcode], func(t *testing.T) {
			servers, addresses := startServers(t, 2)
			servers[0].SetFaults(dnstest.Faults{Rcode: dns.RcodeServerFailure})
			servers[1].SetFaults(dnstest.Faults{Rcode: rcode})
			m, from, err := askFor(t, newForward(t, patient, addresses...), "www.example.", dns.TypeA)
			if err != nil || m.Rcode != rcode || from != addresses[1] {
				t.Errorf("%v from %v, error %v", m, from, err)
			}
		})
	}
}

// TestOneRefusesOneIsSilent: a refusal is passed on when the other server is silent, without
// waiting for the deadline.
func TestOneRefusesOneIsSilent(t *testing.T) {
	t.Parallel()
	for _, silent := range []int{0, 1} {
		t.Run(fmt.Sprintf("server %d is silent", silent), func(t *testing.T) {
			t.Parallel()
			servers, addresses := startServers(t, 2)
			servers[silent].SetFaults(dnstest.Faults{Drop: true})
			servers[1-silent].SetFaults(dnstest.Faults{Rcode: dns.RcodeRefused})
			f := newForward(t, func(c *Config) { c.Deadline = time.Hour }, addresses...)
			m, from, err := askFor(t, f, "www.example.", dns.TypeA)
			if err != nil || m.Rcode != dns.RcodeRefused || from != addresses[1-silent] {
				t.Errorf("%v from %v, error %v", m, from, err)
			}
		})
	}
}

func TestWhenNobodyResponds(t *testing.T) {
	servers, addresses := startServers(t, 2)
	rows := []struct {
		name  string
		spoil func(*dnstest.Server)
		code  uint16
		words string
	}{
		{"silence", func(s *dnstest.Server) { s.SetFaults(dnstest.Faults{Drop: true}) }, dns.ExtendedErrorCodeNoReachableAuthority, "timed out"},
		{"forgeries", func(s *dnstest.Server) { s.SetFaults(dnstest.Faults{WrongID: true}) }, dns.ExtendedErrorCodeNoReachableAuthority, "timed out"},
		{"FORMERR with EDNS and without", func(s *dnstest.Server) { s.SetFaults(dnstest.Faults{Rcode: dns.RcodeFormatError}) }, dns.ExtendedErrorCodeNetworkError, "FORMERR"},
		{"closed ports", (*dnstest.Server).Down, dns.ExtendedErrorCodeNetworkError, "connection refused"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			for _, s := range servers {
				row.spoil(s)
			}
			f := newForward(t, func(c *Config) {
				if patient(c); row.words == "timed out" {
					c.Hedge, c.TryTimeout, c.Deadline = 0, 30*time.Millisecond, 200*time.Millisecond
				}
			}, addresses...)
			_, from, err := askFor(t, f, "www.example.", dns.TypeA)
			var extended *dnsserver.ExtendedError
			if !errors.As(err, &extended) || extended.Code != row.code || !errors.Is(err, ErrNoResponse) || !from.IsZero() {
				t.Fatalf("got error %v, answer from %v", err, from)
			}
			want := fmt.Sprintf("no response from %v (%s), %v (%s)", addresses[0], row.words, addresses[1], row.words)
			if extended.Text != want {
				t.Errorf("text %q, want %q", extended.Text, want)
			}
		})
	}
}

func TestNoServers(t *testing.T) {
	f := New(Config{Routes: []Route{testRoute("cluster.local")}})
	defer f.Close()
	for name, want := range map[string]string{
		"a.cluster.local.": "no nameserver is known for cluster.local",
		"www.example.":     "no upstream nameserver is known",
	} {
		_, _, err := askFor(t, f, name, dns.TypeA)
		var extended *dnsserver.ExtendedError
		if !errors.As(err, &extended) || !errors.Is(err, ErrNoServers) || extended.Text != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEDNSIsRememberedPerServer: a server that rejected EDNS gets no EDNS queries for a long time.
// A server that only lost a packet still gets them.
func TestEDNSIsRememberedPerServer(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		faults dnstest.Faults
		ask    int // questions
		edns   int // of the queries received, those with EDNS
		plain  int // and those without
		fails  bool
	}{
		{"behaves", dnstest.Faults{}, 3, 3, 0, false},
		{"FORMERR to EDNS", dnstest.Faults{FormErrOnEDNS: true}, 3, 1, 3, false},
		{"silent to EDNS", dnstest.Faults{DropOnEDNS: true}, 5, 3, 5, false},
		// The second try has no EDNS, unless the check of the silent server has already shown that
		// the server accepts it.
		{"one packet lost", dnstest.Faults{Drop: true, First: 1}, 3, 3, 1, false},
		// A server that rejects every query does not reject EDNS in particular.
		{"FORMERR to all", dnstest.Faults{Rcode: dns.RcodeFormatError}, 2, 2, 2, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			servers, addresses := startServers(t, 1)
			servers[0].SetFaults(row.faults)
			f := newForward(t, func(c *Config) {
				patient(c)
				if row.faults.Drop || row.faults.DropOnEDNS { // a busy machine answers within a second
					c.Hedge, c.TryTimeout = time.Second, time.Second
				}
			}, addresses...)
			for range row.ask {
				if _, _, err := askFor(t, f, "www.example.", dns.TypeA); (err != nil) != row.fails {
					t.Fatal(err)
				}
			}
			edns, plain := 0, 0
			for _, q := range servers[0].Received() {
				switch {
				case q.Msg.Question[0].Name != "www.example.": // the check of a silent server
				case q.Msg.IsEdns0() != nil:
					edns++
				default:
					plain++
				}
			}
			if row.name == "one packet lost" && plain == 0 {
				edns, plain = edns-1, plain+1
			}
			if edns != row.edns || plain != row.plain {
				t.Errorf("%d queries with EDNS and %d without, want %d and %d", edns, plain, row.edns, row.plain)
			}
		})
	}
}

// TestWhatReachesTheServer: the upstream gets the question and nothing about the client.
func TestWhatReachesTheServer(t *testing.T) {
	servers, addresses := startServers(t, 1)
	f := newForward(t, patient, addresses...)
	if _, _, err := askFor(t, f, "WWW.example.", dns.TypeA, withOptions, withDO, withCD); err != nil {
		t.Fatal(err)
	}
	got := servers[0].Received()[0].Msg
	opt := got.IsEdns0()
	if opt == nil || !opt.Do() || opt.UDPSize() != 1232 || len(opt.Option) != 0 || len(got.Extra) != 1 {
		t.Errorf("additional section %v", got.Extra)
	}
	if !got.CheckingDisabled || !got.RecursionDesired || !got.AuthenticatedData || got.Question[0].Name != "www.example." {
		t.Errorf("query\n%v", got)
	}
}

// TestStrayRecordsAreDropped: unrelated records are dropped; Extended DNS Errors of the upstream
// are kept.
func TestStrayRecordsAreDropped(t *testing.T) {
	servers, addresses := startServers(t, 1)
	servers[0].SetFaults(dnstest.Faults{ExtraRR: "bank.test. 300 IN A " + dnstest.ForgedA})
	m, _, err := askFor(t, newForward(t, patient, addresses...), "alias.example.", dns.TypeA)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Answer) != 2 || m.IsEdns0() != nil {
		t.Errorf("response\n%v", m)
	}
}

// TestLargeResponses: a response larger than our buffer is fetched over TCP, and the cut datagram
// is not mistaken for the whole response.
func TestLargeResponses(t *testing.T) {
	var zone strings.Builder
	for i := range 900 {
		fmt.Fprintf(&zone, "many.example. 300 IN A 10.0.%d.%d\n", i/250, i%250)
	}
	s := dnstest.NewServer(t, zone.String())
	m, _, err := askFor(t, newForward(t, patient, plain(s)), "many.example.", dns.TypeA)
	if err != nil || len(m.Answer) != 900 || m.Truncated {
		t.Fatalf("%d records, %v", len(m.Answer), err)
	}
}
