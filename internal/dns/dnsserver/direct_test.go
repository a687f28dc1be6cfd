package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// TestDirect: a query without a socket gets the same answer as one over a socket.
func TestDirect(t *testing.T) {
	upstream := nameserver.FromAddr(netip.MustParseAddr("192.0.2.53"))
	handler := HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
		switch q.Msg.Question[0].Name {
		case "fails.":
			return nil, &ExtendedError{Code: dns.ExtendedErrorCodeNotReady, Text: "not yet"}
		case "breaks.":
			return nil, errors.New("broken")
		case "silent.":
			return nil, nil
		case "asks.":
			q.AnsweredBy = upstream
		case "remembers.":
			q.AnsweredBy, q.Cached = upstream, true
		}
		q.Origin = OriginLocalData
		return new(dns.Msg).SetRcode(q.Msg, dns.RcodeNameError), nil
	})
	for _, test := range []struct {
		name   string
		qtype  uint16
		rcode  int
		origin Origin
		why    int // code of the Extended DNS Error; -1 if none
		seen   Seen
	}{
		{"absent.", dns.TypeA, dns.RcodeNameError, OriginLocalData, -1, Seen{Outcome: ByHandler}},
		{"fails.", dns.TypeA, dns.RcodeServerFailure, "", int(dns.ExtendedErrorCodeNotReady), Seen{Outcome: ByNobody, Why: "not yet"}},
		{"asks.", dns.TypeA, dns.RcodeNameError, OriginLocalData, -1, Seen{Outcome: ByUpstream, Server: upstream}},
		{"remembers.", dns.TypeA, dns.RcodeNameError, OriginLocalData, -1, Seen{Outcome: ByMemory}},
		{"breaks.", dns.TypeA, dns.RcodeServerFailure, "", -1, Seen{Outcome: ByNobody}},
		{"absent.", dns.TypeAXFR, dns.RcodeRefused, OriginSelf, int(dns.ExtendedErrorCodeNotSupported), Seen{Outcome: ByServer}},
		{"absent.", dns.TypeNXNAME, dns.RcodeFormatError, OriginSelf, int(dns.ExtendedErrorCodeInvalidQueryType), Seen{Outcome: ByServer}},
	} {
		m := new(dns.Msg).SetQuestion(test.name, test.qtype).SetEdns0(1232, false)
		response, q, err := Direct(t.Context(), handler, m, netip.AddrPort{}, netip.AddrPort{})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if seen := q.Seen([]byte("query"), []byte("response"), time.Second); seen.Outcome != test.seen.Outcome || seen.Server != test.seen.Server || seen.Why != test.seen.Why ||
			string(seen.Query) != "query" || string(seen.Response) != "response" || seen.Took != time.Second || seen.Client.IsValid() || seen.Proto != "" {
			t.Errorf("%s: Seen is %+v, want %+v", test.name, seen, test.seen)
		}
		why := -1
		for _, option := range response.IsEdns0().Option {
			if e, ok := option.(*dns.EDNS0_EDE); ok {
				why = int(e.InfoCode)
			}
		}
		if response.Rcode != test.rcode || q.Origin != test.origin || why != test.why || response.Id != m.Id || !response.RecursionAvailable {
			t.Errorf("%s %s: rcode %d, origin %q, extended error %d\n%v", test.name, dns.TypeToString[test.qtype], response.Rcode, q.Origin, why, response)
		}
	}
	if response, q, err := Direct(t.Context(), handler, new(dns.Msg).SetQuestion("silent.", dns.TypeA), netip.AddrPort{}, netip.AddrPort{}); response != nil || q == nil || err != nil {
		t.Errorf("Handler without a response: %v, %v", response, err)
	}
	long := new(dns.Msg).SetQuestion(strings.Repeat("a", 64)+".", dns.TypeA)
	if _, _, err := Direct(t.Context(), handler, long, netip.AddrPort{}, netip.AddrPort{}); err == nil {
		t.Error("an invalid name got an answer")
	}
}

// TestRefusalOf: RefusalOf predicts what the client gets, and counts nothing.
func TestRefusalOf(t *testing.T) {
	at := netip.MustParseAddrPort("192.0.2.1:53")
	client, host := netip.MustParseAddrPort("10.1.0.1:0"), netip.MustParseAddrPort("192.0.2.1:0")
	for _, test := range []struct {
		name   string
		client netip.AddrPort
		before func(s *Server)
		want   string // rcode, EDE code and OnlyOfMisses; "" if it would be answered
	}{
		{name: "a client", client: client},
		{name: "client without access", client: netip.MustParseAddrPort("203.0.113.7:0"), want: "REFUSED 18 false"},
		{name: "client above its rate limit", client: client, before: func(s *Server) { s.access.Load().limiter.Charge(client.Addr(), 10) }, want: "REFUSED 0 false"},
		{name: "this host at the same rate", client: host, before: func(s *Server) { s.access.Load().limiter.Charge(host.Addr(), 10) }},
		{name: "client after large answers", client: client, before: func(s *Server) { s.spending.Charge(client.Addr(), 2*spendRate) }, want: "SERVFAIL 0 true"},
		{name: "client with many pending queries", client: client, before: func(s *Server) {
			s.SetMaxInFlight(1, 1)
			for range fewPlaces {
				s.enterBeyond(client.Addr())
			}
		}, want: "SERVFAIL 0 true"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := New(mustNotBeAsked(t))
			s.SetAccess(&Access{Clients: networks("10.0.0.0/8", "192.0.2.1/32"), Host: networks("192.0.2.1/32"), Rate: 2})
			if test.before != nil {
				test.before(s)
			}
			before := s.Stats()
			for range 3 {
				got := ""
				refusal, err := s.RefusalOf(query("www.example.", dns.TypeA, edns(1232)), test.client, at)
				if err != nil {
					t.Fatal(err)
				}
				if refusal != nil {
					ede := refusal.Msg.IsEdns0().Option[0].(*dns.EDNS0_EDE)
					got = fmt.Sprint(dns.RcodeToString[refusal.Msg.Rcode], " ", ede.InfoCode, " ", refusal.OnlyOfMisses)
				}
				if got != test.want {
					t.Errorf("%q, want %q", got, test.want)
				}
			}
			if after := s.Stats(); after != before {
				t.Errorf("counted: %+v, before %+v", after, before)
			}
		})
	}
}

// TestDirectCutsNoText: an administrator's query gets the whole reason for a failure, and a client
// as much as fits in a small response.
func TestDirectCutsNoText(t *testing.T) {
	long, first := strings.Repeat("no response from 192.0.2.53; ", 40), strings.Repeat("connection refused; ", 40)
	handler := HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
		if q.Msg.Question[0].Name == "fails." {
			return nil, &ExtendedError{Code: dns.ExtendedErrorCodeCachedError, Text: long, First: &ExtendedError{Text: first}}
		}
		m := new(dns.Msg).SetRcode(q.Msg, dns.RcodeServerFailure)
		m.Extra = []dns.RR{newOPT(&dns.EDNS0_EDE{ExtraText: long}, &dns.EDNS0_EDE{ExtraText: first})}
		return m, nil
	})
	_, at := start(t, Config{Handler: handler})
	texts := func(m *dns.Msg) (all []string) {
		for _, option := range m.IsEdns0().Option {
			all = append(all, option.(*dns.EDNS0_EDE).ExtraText)
		}
		return all
	}
	for _, name := range []string{"fails.", "answers."} {
		m := new(dns.Msg).SetQuestion(name, dns.TypeA).SetEdns0(1232, false)
		response, _, err := Direct(t.Context(), handler, m, netip.AddrPort{}, netip.AddrPort{})
		if err != nil {
			t.Fatal(err)
		}
		if got := texts(response); !slices.Equal(got, []string{long, first}) {
			t.Errorf("%s: got %q", name, got)
		}
		sent, _, err := new(dns.Client).Exchange(m, at.String())
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts(sent) {
			if len(text) > maxExtraText || !strings.HasSuffix(text, " ...") {
				t.Errorf("%s: a client gets %q", name, text)
			}
		}
	}
}
