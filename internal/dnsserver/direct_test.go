package dnsserver

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// TestDirect: a question without a socket is answered as one with.
func TestDirect(t *testing.T) {
	handler := HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
		switch q.Msg.Question[0].Name {
		case "fails.":
			return nil, &ExtendedError{Code: dns.ExtendedErrorCodeNotReady, Text: "not yet"}
		case "breaks.":
			return nil, errors.New("broken")
		case "silent.":
			return nil, nil
		}
		q.Origin = OriginLocalData
		return new(dns.Msg).SetRcode(q.Msg, dns.RcodeNameError), nil
	})
	for _, test := range []struct {
		name   string
		qtype  uint16
		rcode  int
		origin Origin
		why    int // the code of the extended error; -1: none
	}{
		{"absent.", dns.TypeA, dns.RcodeNameError, OriginLocalData, -1},
		{"fails.", dns.TypeA, dns.RcodeServerFailure, "", int(dns.ExtendedErrorCodeNotReady)},
		{"breaks.", dns.TypeA, dns.RcodeServerFailure, "", -1},
		{"absent.", dns.TypeAXFR, dns.RcodeRefused, OriginSelf, int(dns.ExtendedErrorCodeNotSupported)},
		{"absent.", dns.TypeNXNAME, dns.RcodeFormatError, OriginSelf, int(dns.ExtendedErrorCodeInvalidQueryType)},
	} {
		m := new(dns.Msg).SetQuestion(test.name, test.qtype).SetEdns0(1232, false)
		response, q, err := Direct(t.Context(), handler, m, netip.AddrPort{}, netip.AddrPort{})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
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
		t.Errorf("of a Handler that says nothing: %v, %v", response, err)
	}
	long := new(dns.Msg).SetQuestion(strings.Repeat("a", 64)+".", dns.TypeA)
	if _, _, err := Direct(t.Context(), handler, long, netip.AddrPort{}, netip.AddrPort{}); err == nil {
		t.Error("a name that there cannot be is answered")
	}
}
