package view

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// TestRecentNames proves that failures are shown for minutes after the cache stopped serving them,
// that names that the node answers itself are not shown, and that each list has the latest names.
func TestRecentNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := nameserver.MustParse("192.0.2.53")
		c := cache.New(cache.Config{Size: 1000, Next: dnsserver.HandlerFunc(func(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
			m, name := new(dns.Msg).SetReply(q.Msg), q.Msg.Question[0].Name
			if !strings.HasPrefix(name, "own") {
				q.AnsweredBy = server
			}
			soa, err := dns.NewRR("example. 300 IN SOA ns.example. root.example. 1 2 3 4 300")
			switch {
			case strings.HasPrefix(name, "failed"):
				m.Rcode = dns.RcodeServerFailure
			case strings.HasPrefix(name, "absent"):
				m.Rcode, m.Ns = dns.RcodeNameError, []dns.RR{soa}
			default:
				rr, err := dns.NewRR(name + " 900 IN A 192.0.2.1")
				m.Answer = []dns.RR{rr}
				return m, err
			}
			return m, err
		})})
		ask := func(name string) {
			_, _ = c.ServeDNS(t.Context(), &dnsserver.Query{Msg: new(dns.Msg).SetQuestion(name, dns.TypeA)}) // failures are among the answers
			time.Sleep(time.Second)
		}
		for i := range maxRecent + 2 {
			ask(fmt.Sprintf("www%d.example.", i))
		}
		ask("failed-long-ago.example.")
		time.Sleep(recentFailures - 10*time.Second)
		for _, name := range []string{"failed.example.", "absent.example.", "own.example.", "www.example."} {
			ask(name)
		}
		time.Sleep(10 * time.Second)
		got := recentNames(t.Context(), c)
		if len(got.Failed) != 1 || got.Failed[0].Name != "failed.example." || got.Failed[0].Result != "SERVFAIL" || got.Failed[0].Age != 14 {
			t.Errorf("got failed names %v", got.Failed)
		}
		if len(got.Negative) != 1 || got.Negative[0].Name != "absent.example." || got.Negative[0].Result != "NXDOMAIN" {
			t.Errorf("got negative names %v", got.Negative)
		}
		if len(got.Answered) != maxRecent || got.Answered[0].Name != "www.example." || got.Answered[1].Name != "www9.example." {
			t.Errorf("got answered names %v", got.Answered)
		}
	})
}
