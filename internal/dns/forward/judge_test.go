package forward

import (
	"testing"

	"github.com/miekg/dns"
)

func TestJudge(t *testing.T) {
	rows := []struct {
		name         string
		rcode        int
		tc           bool
		edns, stream bool
		want         verdict
	}{
		{name: "NOERROR", rcode: dns.RcodeSuccess, edns: true, want: final},
		{name: "NXDOMAIN", rcode: dns.RcodeNameError, want: final},
		{name: "YXDOMAIN, of a DNAME that leads too far", rcode: dns.RcodeYXDomain, want: final},
		{name: "SERVFAIL", rcode: dns.RcodeServerFailure, edns: true, want: nextBest},
		{name: "REFUSED", rcode: dns.RcodeRefused, edns: true, want: nextBest},
		{name: "FORMERR with EDNS", rcode: dns.RcodeFormatError, edns: true, want: noEDNS},
		{name: "FORMERR without", rcode: dns.RcodeFormatError, want: nextBest},
		{name: "NOTIMP with EDNS", rcode: dns.RcodeNotImplemented, edns: true, want: noEDNS},
		{name: "NOTIMP without", rcode: dns.RcodeNotImplemented, want: nextBest},
		{name: "BADVERS", rcode: dns.RcodeBadVers, edns: true, want: noEDNS},
		{name: "BADCOOKIE, which we sent none of", rcode: dns.RcodeBadCookie, edns: true, want: nextBest},
		{name: "truncated", tc: true, edns: true, want: overTCP},
		{name: "truncated over TCP", tc: true, stream: true, want: nextBest},
		{name: "truncated FORMERR", rcode: dns.RcodeFormatError, tc: true, edns: true, want: noEDNS},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			m := &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: row.rcode, Truncated: row.tc}}
			if got := judge(m, row.edns, row.stream); got != row.want {
				t.Errorf("got %d, want %d", got, row.want)
			}
		})
	}
}
