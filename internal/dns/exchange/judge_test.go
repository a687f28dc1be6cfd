package exchange

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
		want         Verdict
	}{
		{name: "NOERROR", rcode: dns.RcodeSuccess, edns: true, want: Final},
		{name: "NXDOMAIN", rcode: dns.RcodeNameError, want: Final},
		{name: "YXDOMAIN, from a DNAME whose result is too long", rcode: dns.RcodeYXDomain, want: Final},
		{name: "SERVFAIL", rcode: dns.RcodeServerFailure, edns: true, want: NextBest},
		{name: "REFUSED", rcode: dns.RcodeRefused, edns: true, want: NextBest},
		{name: "FORMERR with EDNS", rcode: dns.RcodeFormatError, edns: true, want: NoEDNS},
		{name: "FORMERR without EDNS", rcode: dns.RcodeFormatError, want: NextBest},
		{name: "NOTIMP with EDNS", rcode: dns.RcodeNotImplemented, edns: true, want: NoEDNS},
		{name: "NOTIMP without EDNS", rcode: dns.RcodeNotImplemented, want: NextBest},
		{name: "BADVERS", rcode: dns.RcodeBadVers, edns: true, want: NoEDNS},
		{name: "BADCOOKIE, although we sent no cookie", rcode: dns.RcodeBadCookie, edns: true, want: NextBest},
		{name: "truncated", tc: true, edns: true, want: OverTCP},
		{name: "truncated over TCP", tc: true, stream: true, want: NextBest},
		{name: "truncated FORMERR", rcode: dns.RcodeFormatError, tc: true, edns: true, want: NoEDNS},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			m := &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: row.rcode, Truncated: row.tc}}
			if got := Judge(m, row.edns, row.stream); got != row.want {
				t.Errorf("got %d, want %d", got, row.want)
			}
		})
	}
}
