package resolve

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestRefreshPanics: a panic while refreshing a stale answer is counted and logged.
func TestRefreshPanics(t *testing.T) {
	var log lab.Text
	c := config(0)
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	r := New(c, new(policy.Policy))
	r.refresh(func() { panic("out of cheese") })
	r.Close()
	if n := c.Panics.Count(); n != 1 || strings.Count(log.String(), "stack=") != 1 {
		t.Errorf("counted %d panics; the log is\n%s", n, log.String())
	}
}

// TestFlushWhileAsked: an answer to a query from before a flush is not cached, even if a handler
// has to look at it: because of an alias or of an Extended DNS Error.
func TestFlushWhileAsked(t *testing.T) {
	site := dnstest.NewServer(t, aliasRecords)
	r := stillOn(t, 1, "nodeName: node-7\nupstreams: [\""+site.Addr().String()+"\"]\nserviceCIDRs: [172.30.0.0/16]\n", "", bazaar())
	c := twoServers(t, r).dial(t, "udp").wire
	const held = 100 * time.Millisecond
	site.SetFaults(dnstest.Faults{Delay: held})
	site.SetFaultsFor("own.example.com.", dnstest.Faults{Delay: held, Raw: func(query []byte) [][]byte {
		m := new(dns.Msg)
		if err := m.Unpack(query); err != nil {
			return nil
		}
		m = new(dns.Msg).SetReply(m)
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: "own.example.com.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: []byte{192, 0, 2, 7}}}
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleAnswer}}
		wire, _ := m.Pack()
		return [][]byte{wire}
	}})
	for _, name := range []string{"own.example.com.", "api.example.com."} {
		for _, isFlushed := range []bool{true, false} {
			asked := site.QueriesFor(name, dns.TypeA)
			var answer *dns.Msg
			done := make(chan struct{})
			go func() {
				defer close(done)
				answer = unpacked(t, exchangeOn(t, c, wireQuery(t, name, dns.TypeA)))
			}()
			for site.QueriesFor(name, dns.TypeA) == asked {
				time.Sleep(time.Millisecond)
			}
			if isFlushed {
				r.Cache().Flush(nil)
			}
			<-done
			if n := r.Cache().Stats().Entries; n > 0 == isFlushed || len(answer.Answer) == 0 {
				t.Fatalf("%s: %d entries, flushed %v\n%v", name, n, isFlushed, answer)
			}
		}
		r.Cache().Flush(nil)
	}
}
