package dnstest

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"
)

// FuzzDiff: a response made from wanted text does not differ from it.
func FuzzDiff(f *testing.F) {
	f.Add("www.example.com. 60 IN A 192.0.2.1\n;; AUTHORITY\n. * IN SOA . . 1 2 3 4 5")
	f.Add(";; NXDOMAIN\n;; flags aa tc\n;; ordered\n*.example. * TXT \"a\tb\" \"*\"\n*.example. 1 TXT \"a\"")
	f.Add(";; BADVERS\n;; ede\nx. 1 HINFO a\\009b c\nx. 1 NULL \\# 0")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := parseWanted(text)
		if err != nil || w.ede != nil && len(*w.ede) > 0 {
			return
		}
		m := new(dns.Msg)
		m.Rcode = w.rcode
		if w.flags != nil {
			setFlags(m, *w.flags)
		}
		for i, into := range []*[]dns.RR{&m.Answer, &m.Ns, &m.Extra} {
			for _, rr := range w.sections[i] {
				if rr.rr.Header().Rrtype != dns.TypeOPT {
					*into = append(*into, rr.rr)
				}
			}
		}
		if diff := Diff(text, m); diff != "" {
			t.Errorf("%q differs from itself:\n%s", text, diff)
		}
	})
}

func setFlags(m *dns.Msg, names []string) {
	for _, name := range names {
		*map[string]*bool{
			"aa": &m.Authoritative, "tc": &m.Truncated, "rd": &m.RecursionDesired,
			"ra": &m.RecursionAvailable, "ad": &m.AuthenticatedData, "cd": &m.CheckingDisabled,
		}[name] = true
	}
}

// FuzzReact: for any input, a server without faults sends one response to it, or nothing.
func FuzzReact(f *testing.F) {
	for _, name := range []string{"www.example.com.", "a.b.example.com.", "alias.example.com.", "."} {
		query := new(dns.Msg).SetQuestion(name, dns.TypeA)
		query.SetEdns0(600, true)
		wire, err := query.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire, true)
	}
	f.Add([]byte{}, false)
	known, err := parseRecords("www.example.com. A 192.0.2.1\n*.b.example.com. A 192.0.2.2\nalias.example.com. CNAME a.b.example.com.\n*. TXT x")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, wire []byte, udp bool) {
		network := "tcp"
		if udp {
			network = "udp"
		}
		s := &Server{records: known}
		out := s.react(wire, network, netip.AddrPort{})
		if len(out.messages) == 0 {
			return
		}
		var query, response dns.Msg
		if err := query.Unpack(wire); err != nil {
			t.Fatalf("got a response to an invalid query: %v", err)
		}
		if err := response.Unpack(out.messages[0].wire); err != nil {
			t.Fatalf("malformed response: %v", err)
		}
		if len(out.messages) != 1 || !response.Response || response.Id != query.Id || len(response.Question) != 1 || response.Question[0] != query.Question[0] {
			t.Errorf("%d messages, the first\n%s", len(out.messages), &response)
		}
		if opt := query.IsEdns0(); udp && (opt == nil && len(out.messages[0].wire) > 512 || opt != nil && len(out.messages[0].wire) > max(512, int(opt.UDPSize()))) {
			t.Errorf("%d octets over UDP", len(out.messages[0].wire))
		}
	})
}
