package forward

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

func testServers(t testing.TB, n int) []*server {
	t.Helper()
	var all []*server
	for i := range n {
		address := nameserver.MustParse(fmt.Sprintf("192.0.2.%d", i+1))
		all = append(all, newServer(address, &Forward{config: Config{Log: slog.New(slog.DiscardHandler)}}))
	}
	return all
}

// TestRound: events is what happens to the round. "1!": server 1 refused. "1?": it was silent for
// the time of a try. "1x": it failed. "1%": its response was unreadable. "1X" and "1U": its last
// attempt failed, or was unreadable over TCP. "1T": truncated. Before each event, all due attempts
// start. In starts, "1s" requests a small response and "1t" uses TCP.
func TestRound(t *testing.T) {
	rows := []struct {
		name    string
		servers int
		events  string
		starts  string // servers in the order in which they were queried
		over    bool
		result  string // server of the response to pass on, or the text
	}{
		{"start", 2, "", "1", false, ""},
		{"the first refuses", 2, "1!", "1 2", false, ""},
		{"all refuse: last response", 2, "1! 2!", "1 2", true, "2"},
		{"the first fails", 2, "1x", "1 2", false, ""},
		{"all fail", 2, "1x 2x", "1 2", true, "no response from 192.0.2.1 (connection refused), 192.0.2.2 (connection refused)"},
		{"one is silent: four tries, the last over TCP", 1, "1? 1? 1? 1?", "1 1s 1s 1t", false, ""},
		{"two are silent: two tries each, the last over TCP", 2, "1? 2? 1? 2?", "1 2 1s 2t", false, ""},
		{"five are silent: one try for four of them", 5, "1? 2? 3? 4?", "1 2 3s 4", false, ""},
		{"three are silent: small response from the third, last try over TCP", 3, "1? 2? 3? 1?", "1 2 3s 1t", false, ""},
		{"one loses large responses", 1, "1? 1T", "1 1s 1t", false, ""},
		{"one loses large responses, and TCP is refused", 1, "1? 1T 1X 1x", "1 1s 1t", true, "no response from 192.0.2.1 (connection refused)"},
		{"two lose large responses", 2, "1? 2? 1T", "1 2 1s 1t", false, ""},
		{"five lose large responses", 5, "1? 2? 3T", "1 2 3s 3t", false, ""},
		{"two refuse, the third is silent", 4, "1! 2! 3?", "1 2 3 4", false, ""},
		{"at most four tries", 12, "1! 2! 3! 4!", "1 2 3 4", true, "4"},
		{"refused, then silent: returns the refusal", 2, "1! 2?", "1 2", true, "1"},
		{"silent, then refused: second try for a small response", 2, "1? 2!", "1 2 1s", false, ""},
		{"silent, then failed during another query", 2, "1? 1x", "1 2", false, ""},
		{"unreadable: retry over TCP", 1, "1%", "1 1t", false, ""},
		{"unreadable over UDP and TCP", 1, "1% 1U", "1 1t", true, "no response from 192.0.2.1 (SERVFAIL)"},
		{"unreadable, TCP refused: retry over UDP", 1, "1% 1X", "1 1t 1s", false, ""},
		{"unreadable late: no retry during another query", 2, "1? 1%", "1 2", false, ""},
		{"unreadable late, after a refusal", 2, "1? 1% 2!", "1 2 1t", false, ""},
		{"unreadable after the last allowed try", 4, "1? 2? 3! 1%", "1 2 3s 4", false, ""},
		{"silent, then all failed", 2, "1? 1x 2x 1x", "1 2 1s", true, "no response from 192.0.2.1 (connection refused), 192.0.2.2 (connection refused)"},
	}
	atOnce := []string{"all at once: the last refuses first", "all at once: all refuse", "all at once: one refuses, the others are late"}
	rows = append(rows, []struct {
		name    string
		servers int
		events  string
		starts  string
		over    bool
		result  string
	}{
		{atOnce[0], 3, "3!", "1 2 3", false, ""},
		{atOnce[1], 2, "2! 1!", "1 2", true, "1"},
		{atOnce[2], 3, "2! 3?", "1 2 3", true, "2"},
	}...)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := newRound(testServers(t, row.servers))
			r.all = slices.Contains(atOnce, row.name)
			starts := playRound(t, r, row.events)
			if starts != row.starts {
				t.Errorf("asked %q, want %q", starts, row.starts)
			}
			if r.over() != row.over {
				t.Fatalf("over: got %v", r.over())
			}
			if row.over {
				if got := resultOf(t, r); got != row.result {
					t.Errorf("result %q, want %q", got, row.result)
				}
			}
		})
	}
}

// playRound reports the events and starts due attempts in between.
func playRound(t *testing.T, r *round, events string) (starts string) {
	t.Helper()
	open := map[string][]attempt{}
	var started []string
	start := func() {
		for a, ok := r.next(); ok; a, ok = r.next() {
			name := strings.TrimPrefix(a.to.Server.String(), "192.0.2.")
			open[name] = append(open[name], a)
			if a.tcp {
				name += "t"
			} else if a.isSmall {
				name += "s"
			}
			started = append(started, name)
		}
	}
	start()
	for _, event := range strings.Fields(events) {
		name, what := event[:1], event[1:]
		if what == "?" {
			r.timedOut()
			start()
			continue
		}
		if what == "%" {
			r.retryOverTCP(outcome{attempt: open[name][0]})
			start()
			continue
		}
		i := 0
		if what == "X" || what == "U" || what == "T" {
			i = len(open[name]) - 1
		}
		o := outcome{attempt: open[name][i]}
		open[name] = slices.Delete(open[name], i, i+1)
		if what == "T" {
			o.tcp, o.isRedo = true, true
			r.redo(o)
			start()
			continue
		}
		if what == "U" {
			o.msg = &dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Rcode: dns.RcodeServerFailure}}
		} else if what == "x" || what == "X" {
			o.err = &net.OpError{Op: "read", Err: syscall.ECONNREFUSED}
		} else {
			o.msg = new(dns.Msg).SetRcode(clientQuery("a.example.", dns.TypeA).Msg, dns.RcodeRefused)
		}
		r.ended(o)
		start()
	}
	return strings.Join(started, " ")
}

func resultOf(t *testing.T, r *round) string {
	t.Helper()
	_, from, err := r.result(exchange.Question{Name: "a.example.", Type: dns.TypeA})
	if err == nil {
		return strings.TrimPrefix(from.Server.String(), "192.0.2.")
	}
	var extended *dnsserver.ExtendedError
	if !errors.As(err, &extended) || !errors.Is(err, ErrNoResponse) {
		t.Fatalf("error %v", err)
	}
	return extended.Text
}

func TestExplain(t *testing.T) {
	s := testServers(t, 2)
	refused := &net.OpError{Op: "read", Err: syscall.ECONNREFUSED}
	rows := []struct {
		name   string
		misses []outcome
		code   uint16
		text   string
	}{
		{
			"network errors",
			[]outcome{{attempt: attempt{to: s[0]}, err: refused}, {attempt: attempt{to: s[1]}, err: syscall.EHOSTUNREACH}},
			dns.ExtendedErrorCodeNetworkError, "no response from 192.0.2.1 (connection refused), 192.0.2.2 (no route to host)",
		},
		{
			"one silent server",
			[]outcome{{attempt: attempt{to: s[0]}, err: refused}, {attempt: attempt{to: s[1]}, err: exchange.ErrTimeout}},
			dns.ExtendedErrorCodeNoReachableAuthority, "no response from 192.0.2.1 (connection refused), 192.0.2.2 (timed out)",
		},
		{
			"two errors of one server",
			[]outcome{{attempt: attempt{to: s[0]}, err: exchange.ErrTimeout}, {attempt: attempt{to: s[0]}, err: io.EOF}},
			dns.ExtendedErrorCodeNoReachableAuthority, "no response from 192.0.2.1 (connection closed)",
		},
		{
			"unusable responses",
			[]outcome{
				{attempt: attempt{to: s[0]}, msg: &dns.Msg{MsgHdr: dns.MsgHdr{Truncated: true}}},
				{attempt: attempt{to: s[1]}, msg: &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeBadCookie}}},
			},
			dns.ExtendedErrorCodeNoReachableAuthority, "no response from 192.0.2.1 (truncated), 192.0.2.2 (BADCOOKIE)",
		},
		{
			"text from the network",
			[]outcome{{attempt: attempt{to: s[0]}, err: errors.New("bad\nname \xff" + strings.Repeat("x", 500))}},
			dns.ExtendedErrorCodeNoReachableAuthority, "no response from 192.0.2.1 (bad?name ?" + strings.Repeat("x", 106) + " ...)",
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			code, text := explain(row.misses)
			if code != row.code || text != row.text {
				t.Errorf("got %d %q\nwant %d %q", code, text, row.code, row.text)
			}
		})
	}
}

// lateTimes makes a server late n times in a row: three count as often late, five as mostly late.
func lateTimes(s *server, n int) {
	for range n {
		s.Late(time.Now())
	}
}

func TestInTurn(t *testing.T) {
	for _, row := range []struct{ name, down, want string }{
		{"all up", "", "1 2 3 |"},
		{"the first down", "1", "2 3 | 1"},
		{"the last down", "3", "1 2 | 3"},
		{"two down keep their order", "1 3", "2 | 1 3"},
		{"all down", "1 2 3", "1 2 3 |"},
		{"one late", "1-", "2 3 | 1"},
		{"late before mostly late before down", "1 2= 3-", "3 | 2 1"},
		{"all late", "1- 2- 3-", "1 2 3 |"},
	} {
		t.Run(row.name, func(t *testing.T) {
			servers := testServers(t, 3)
			for _, s := range servers {
				name := s.Server.String()[8:]
				switch i := strings.Index(row.down, name); {
				case strings.Contains(row.down, name+"-"):
					lateTimes(s, 3)
				case strings.Contains(row.down, name+"="):
					lateTimes(s, 5)
				case i >= 0:
					for range 3 {
						s.Failed("gone", false, time.Now())
					}
				}
			}
			order, behind := inTurn(servers)
			var got []string
			for _, s := range order {
				got = append(got, s.Server.String()[8:])
			}
			got = slices.Insert(got, len(order)-len(behind), "|")
			if text := strings.Join(got, " "); text != row.want {
				t.Errorf("order %s, want %s", text, row.want)
			}
		})
	}
}

// TestRedoIsNoTurn: when all servers are down and each is queried once, a retry over another
// transport must not use up another server's turn. After a truncated response without TCP, the
// question used to fail although the other server had recovered, because it was not queried.
func TestRedoIsNoTurn(t *testing.T) {
	servers := testServers(t, 2)
	r := newRound(servers)
	r.limit = len(servers)
	r.resume(servers[0])
	again := r.current
	again.tcp = true
	r.redo(outcome{attempt: again, isRedo: true})
	first, ok := r.next()
	if !ok || first.to != servers[0] || !first.tcp {
		t.Fatalf("got %+v, %v, want the same server over TCP", first, ok)
	}
	r.ended(outcome{attempt: first, err: syscall.ECONNREFUSED})
	if second, ok := r.next(); !ok || second.to != servers[1] {
		t.Errorf("got %+v, %v, want the other server", second, ok)
	}
}
