package dnswire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// TestShorten: a message for a client over UDP keeps the first records of its answer. A record
// whose alias was left out goes too, because it seems to belong to no question. Long names do not
// count where a response has pointers for them.
func TestShorten(t *testing.T) {
	rr := func(text string) dns.RR {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		return rr
	}
	long := func(n int) (m *dns.Msg) {
		m = new(dns.Msg).SetQuestion("www.example.", dns.TypeA)
		m.Answer = append(m.Answer, rr("a.other.test. 60 IN A 192.0.2.1"))
		for i := range n {
			m.Answer = append(m.Answer, rr(fmt.Sprintf("www.example. 60 IN A 192.0.%d.%d", i/256, i%256)))
		}
		m.Answer = append(m.Answer, rr("www.example. 60 IN CNAME a.other.test."))
		m.Ns = []dns.RR{rr("example. 60 IN NS ns.example.")}
		m.SetEdns0(1232, false)
		return m
	}
	if got := Shorten(nil, "."); got != nil {
		t.Errorf("nothing became %v", got)
	}
	if m := long(50); Shorten(m, "www.example.") != m {
		t.Error("a short message was shortened")
	}
	deep := new(dns.Msg).SetQuestion(strings.Repeat("a-long-label.", 10)+"example.", dns.TypeA)
	for i := range 40 {
		deep.Answer = append(deep.Answer, rr(fmt.Sprintf("%s 60 IN A 192.0.2.%d", deep.Question[0].Name, i)))
	}
	if deep.Len() <= MaxUDP {
		t.Fatalf("%d bytes without compression", deep.Len())
	}
	if Shorten(deep, deep.Question[0].Name) != deep {
		t.Error("a message that is short with compressed names was shortened")
	}
	m := long(1000)
	got := Shorten(m, "www.example.")
	if !got.Truncated || got.Len() > MaxUDP+100 || len(got.Answer) < 100 || len(got.Ns) > 0 || got.IsEdns0() == nil {
		t.Errorf("got %d records in %d bytes, TC %v", len(got.Answer), got.Len(), got.Truncated)
	}
	for _, rr := range got.Answer {
		if rr.Header().Name != "www.example." {
			t.Errorf("got %v", rr)
		}
	}
	if m.Truncated || len(m.Answer) != 1002 || m.Answer[0] == nil || m.Answer[0].Header().Name != "a.other.test." || len(m.Ns) != 1 {
		t.Error("the whole message was changed")
	}
}
