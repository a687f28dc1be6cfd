package dnstest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// site is a zone with an SOA record, and records outside any zone.
const site = `
	$TTL 600
	example.com.            IN SOA ns hostmaster 7 3600 600 86400 30
	                        IN NS  ns.example.com.
	www.example.com.     60 IN A   192.0.2.80
	                     60 IN A   192.0.2.81
	www.example.com.     60 IN AAAA 2001:db8::80
	alias.example.com.   20 IN CNAME www.example.com.
	twice.example.com.   10 IN CNAME alias.example.com.
	dead.example.com.       IN CNAME nx.example.com.
	out.example.com.        IN CNAME www.elsewhere.example.
	loop.example.com.       IN CNAME pool.example.com.
	pool.example.com.       IN CNAME loop.example.com.
	*.apps.example.com.  40 IN A   192.0.2.90
	*.apps.example.com.  40 IN MX  10 mail.example.com.
	own.apps.example.com.   IN TXT "own"
	a.deep.apps.example.com. IN TXT "deep"
	*.alias.example.com.    IN CNAME www.example.com.
	www.elsewhere.example.  IN TXT "no address"
	moved.example.com.   50 IN DNAME example.com.
`

const (
	siteSOA = "example.com. 600 IN SOA ns. hostmaster. 7 3600 600 86400 30"
	rootSOA = ". 60 IN SOA ns.invalid. hostmaster.invalid. 1 3600 600 86400 60"
)

func TestRecords(t *testing.T) {
	negative := func(rcode, soa string) string { return ";; " + rcode + "\n;; AUTHORITY\n" + soa }
	const www = "\nwww.example.com. 60 IN A 192.0.2.80\nwww.example.com. 60 IN A 192.0.2.81"
	tests := []struct {
		name  string
		ask   string
		qtype uint16
		want  string
	}{
		{"RRset", "www.example.com.", dns.TypeA, ";; flags aa rd ra" + www},
		{"another type", "www.example.com.", dns.TypeAAAA, "www.example.com. 60 IN AAAA 2001:db8::80"},
		{"any type", "www.example.com.", dns.TypeANY, www + "\nwww.example.com. 60 IN AAAA 2001:db8::80"},
		{"$TTL, and the owner of the line before", "example.com.", dns.TypeNS, "example.com. 600 IN NS ns.example.com."},
		{"SOA", "example.com.", dns.TypeSOA, siteSOA},
		{"NODATA", "www.example.com.", dns.TypeTXT, negative("NOERROR", siteSOA)},
		{"NXDOMAIN", "nx.example.com.", dns.TypeA, ";; flags aa rd ra\n" + negative("NXDOMAIN", siteSOA)},
		{"NXDOMAIN below a name that exists", "a.www.example.com.", dns.TypeA, negative("NXDOMAIN", siteSOA)},
		{"NXDOMAIN outside every zone", "www.nx.example.", dns.TypeA, negative("NXDOMAIN", rootSOA)},
		{"NODATA outside every zone", "www.elsewhere.example.", dns.TypeA, negative("NOERROR", rootSOA)},
		{"empty non-terminal", "deep.apps.example.com.", dns.TypeA, negative("NOERROR", siteSOA)},
		{"empty non-terminal above a zone", "com.", dns.TypeA, negative("NOERROR", rootSOA)},
		{"root", ".", dns.TypeA, negative("NOERROR", rootSOA)},
		{"root's SOA, when there is none", ".", dns.TypeSOA, negative("NOERROR", rootSOA)},
		{"alias", "alias.example.com.", dns.TypeA, ";; ordered\nalias.example.com. 20 IN CNAME www.example.com." + www},
		{
			"alias of an alias", "twice.example.com.", dns.TypeA,
			";; ordered\ntwice.example.com. 10 IN CNAME alias.example.com.\nalias.example.com. 20 IN CNAME www.example.com." + www,
		},
		{"alias itself", "alias.example.com.", dns.TypeCNAME, "alias.example.com. 20 IN CNAME www.example.com."},
		{
			"alias without such data", "alias.example.com.", dns.TypeMX,
			"alias.example.com. 20 IN CNAME www.example.com.\n" + negative("NOERROR", siteSOA),
		},
		{
			"alias of what does not exist (RFC 6604)", "dead.example.com.", dns.TypeA,
			"dead.example.com. 600 IN CNAME nx.example.com.\n" + negative("NXDOMAIN", siteSOA),
		},
		{
			"below a DNAME (RFC 6672)", "alias.Moved.example.com.", dns.TypeAAAA,
			";; ordered\nMoved.example.com. 50 IN DNAME example.com.\nalias.Moved.example.com. 50 IN CNAME alias.example.com.\n" +
				"alias.example.com. 20 IN CNAME www.example.com.\nwww.example.com. 60 IN AAAA 2001:db8::80",
		},
		{"the DNAME itself", "moved.example.com.", dns.TypeDNAME, "moved.example.com. 50 IN DNAME example.com."},
		{
			"alias out of the zone", "out.example.com.", dns.TypeTXT,
			"out.example.com. 600 IN CNAME www.elsewhere.example.\nwww.elsewhere.example. 600 IN TXT \"no address\"",
		},
		{"alias below an alias", "x.alias.example.com.", dns.TypeAAAA, "x.alias.example.com. 600 IN CNAME www.example.com.\nwww.example.com. 60 IN AAAA 2001:db8::80"},
		{"wildcard", "x.apps.example.com.", dns.TypeA, "x.apps.example.com. 40 IN A 192.0.2.90"},
		{"wildcard, two labels deep", "y.x.apps.example.com.", dns.TypeA, "y.x.apps.example.com. 40 IN A 192.0.2.90"},
		{"wildcard without such data", "x.apps.example.com.", dns.TypeTXT, negative("NOERROR", siteSOA)},
		{"wildcard queried by name", "*.apps.example.com.", dns.TypeA, "*.apps.example.com. 40 IN A 192.0.2.90"},
		{"an existing name next to a wildcard", "own.apps.example.com.", dns.TypeA, negative("NOERROR", siteSOA)},
		{"below an existing name next to a wildcard", "x.own.apps.example.com.", dns.TypeA, negative("NXDOMAIN", siteSOA)},
		{"below an empty non-terminal next to a wildcard", "x.deep.apps.example.com.", dns.TypeA, negative("NXDOMAIN", siteSOA)},
		{"zone transfer", "example.com.", dns.TypeAXFR, ";; NOTIMP"},
	}
	server := dnstest.NewServer(t, site)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, options := range [][]dnstest.Option{nil, {dnstest.EDNS(4096)}} {
				got := dnstest.Exchange(t, server.Addr(), test.ask, test.qtype, options...)
				if diff := dnstest.Diff(test.want, got); diff != "" {
					t.Errorf("with %d options:\n%s", len(options), diff)
				}
				if (got.IsEdns0() != nil) != (options != nil) {
					t.Errorf("with %d options: OPT is %v", len(options), got.IsEdns0())
				}
			}
		})
	}
}

func TestChainThatComesBackEnds(t *testing.T) {
	server := dnstest.NewServer(t, site)
	got := dnstest.Exchange(t, server.Addr(), "loop.example.com", dns.TypeA)
	if got.Rcode != dns.RcodeSuccess || len(got.Answer) < 2 || len(got.Ns) != 0 {
		t.Errorf("got\n%s", got)
	}
}

func TestNamesAreEchoed(t *testing.T) {
	server := dnstest.NewServer(t, site)
	for _, name := range []string{"wWw.eXample.COM.", "X.apps.EXAMPLE.com."} {
		got := dnstest.Exchange(t, server.Addr(), name, dns.TypeA) // fails if the question has another case
		if len(got.Answer) == 0 || got.Answer[0].Header().Name != name {
			t.Errorf("asked for %s, got\n%s", name, got)
		}
	}
}

func TestQueriesOutOfTheOrdinary(t *testing.T) {
	tests := []struct {
		name   string
		change dnstest.Option
		want   string
	}{
		{"class CHAOS", func(q *dns.Msg) { q.Question[0].Qclass = dns.ClassCHAOS }, ";; REFUSED"},
		{"NOTIFY", func(q *dns.Msg) { q.Opcode = dns.OpcodeNotify }, ";; NOTIMP"},
		{"EDNS version 1", func(q *dns.Msg) { q.SetEdns0(1232, false); q.IsEdns0().SetVersion(1) }, ";; BADVERS"},
		{"no recursion", func(q *dns.Msg) { q.RecursionDesired = false }, ";; flags aa ra\nwww.example.com. * A 192.0.2.80"},
		{"CD", func(q *dns.Msg) { q.CheckingDisabled = true }, ";; flags aa rd ra cd\nwww.example.com. * A 192.0.2.80"},
	}
	server := dnstest.NewServer(t, world)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := dnstest.Exchange(t, server.Addr(), "www.example.com", dns.TypeA, test.change)
			if diff := dnstest.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOctetsWithTwoForms: Exchange rejected the right response because it had asked for "a\032b"
// and got "a\ b".
func TestOctetsWithTwoForms(t *testing.T) {
	const record = `a\032b\.c.example.com. 60 CNAME x\032\065.example.com.`
	server := dnstest.NewServer(t, record+"\n"+`xa.example.com. 60 A 192.0.2.1`+"\n"+`x\032a.example.com. 60 A 192.0.2.2`)
	server.SetFaultsFor(`\120\097.example.com`, dnstest.Faults{Rcode: dns.RcodeRefused})
	for _, name := range []string{`a\032b\.c.example.com.`, `A\ b\046c.example.com.`} {
		got := dnstest.Exchange(t, server.Addr(), name, dns.TypeA)
		if diff := dnstest.Diff(record+"\n"+`x\032a.example.com. 60 A 192.0.2.2`, got); diff != "" {
			t.Error(diff)
		}
	}
	if n := server.QueriesFor(`a\ b\.c.example.com`, dns.TypeA); n != 2 {
		t.Errorf("%d queries counted, want 2", n)
	}
	if got := dnstest.Exchange(t, server.Addr(), "xa.example.com", dns.TypeA); got.Rcode != dns.RcodeRefused {
		t.Errorf("faults of \\120\\097 do not hold for xa:\n%s", got)
	}
}

// TestWhatIsNoQuery sends messages that no client sends. The server stays silent and continues to
// serve.
func TestWhatIsNoQuery(t *testing.T) {
	response := newQuery("www.example.com.", dns.TypeA)
	response.Response = true
	two := newQuery("www.example.com.", dns.TypeA)
	two.Question = append(two.Question, two.Question[0])
	none := newQuery("www.example.com.", dns.TypeA)
	none.Question = nil
	for name, m := range map[string]*dns.Msg{"response": response, "two questions": two, "no question": none} {
		t.Run(name, func(t *testing.T) {
			server := dnstest.NewServer(t, world)
			if got := seenOverUDP(t, server, m); got != nil {
				t.Errorf("answered with %q", got)
			}
			if n := server.Queries(); n != 1 {
				t.Errorf("%d queries counted, want only the sentinel", n)
			}
		})
	}
}

func TestSignatures(t *testing.T) {
	const signature = " RRSIG A 13 3 300 20300101000000 20200101000000 1 example.com. AAAA"
	server := dnstest.NewServer(t, "www.example.com. 300 A 192.0.2.80\nwww.example.com. 300 IN"+signature+`
plain.example.com. 300 A 192.0.2.81
mixed.example.com. 300 CNAME www.example.com.`)
	const plain, signed = "www.example.com. 300 A 192.0.2.80", "www.example.com. 300 A 192.0.2.80\nwww.example.com. 300" + signature
	ad := func(q *dns.Msg) { q.AuthenticatedData = true }
	cname := "mixed.example.com. 300 CNAME www.example.com.\n"
	tests := []struct {
		name, ask string
		qtype     uint16
		options   []dnstest.Option
		want      string
	}{
		{"not asked for", "www.example.com.", dns.TypeA, nil, ";; flags aa rd ra\n" + plain},
		{"EDNS without DO", "www.example.com.", dns.TypeA, edns, ";; flags aa rd ra\n" + plain},
		{"DO", "www.example.com.", dns.TypeA, []dnstest.Option{dnstest.DO()}, ";; flags aa rd ra ad\n" + signed},
		{"AD alone", "www.example.com.", dns.TypeA, []dnstest.Option{ad}, ";; flags aa rd ra ad\n" + plain},
		{"DO, unsigned", "plain.example.com.", dns.TypeA, []dnstest.Option{dnstest.DO()}, ";; flags aa rd ra\nplain.example.com. 300 A 192.0.2.81"},
		{"DO, unsigned alias", "mixed.example.com.", dns.TypeA, []dnstest.Option{dnstest.DO()}, ";; flags aa rd ra\n" + cname + signed},
		{"DO, another type", "www.example.com.", dns.TypeTXT, []dnstest.Option{dnstest.DO()}, ";; flags aa rd ra\n;; AUTHORITY\n" + rootSOA},
		{"signature requested", "www.example.com.", dns.TypeRRSIG, nil, "www.example.com. 300" + signature},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := dnstest.Exchange(t, server.Addr(), test.ask, test.qtype, test.options...)
			if diff := dnstest.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if opt := got.IsEdns0(); opt != nil && opt.Do() != strings.HasPrefix(test.name, "DO") {
				t.Errorf("DO is %t", opt.Do())
			}
		})
	}
}

func TestLargeResponses(t *testing.T) {
	var records strings.Builder
	for i := range 60 { // 16 bytes each
		fmt.Fprintf(&records, "www.example.com. A 192.0.2.%d\n", i)
	}
	server := dnstest.NewServer(t, records.String())
	for _, test := range []struct {
		name    string
		options []dnstest.Option
		limit   int
		whole   bool
	}{
		{"no EDNS", nil, 512, false},
		{"EDNS below 512", []dnstest.Option{dnstest.EDNS(100)}, 512, false},
		{"EDNS 700", []dnstest.Option{dnstest.EDNS(700)}, 700, false},
		{"EDNS 1232", edns, 1232, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := dnstest.Exchange(t, server.Addr(), "www.example.com", dns.TypeA, test.options...)
			got.Compress = true
			if got.Len() > test.limit || got.Truncated == test.whole || (len(got.Answer) == 60) != test.whole || len(got.Answer) < 20 {
				t.Errorf("%d octets, %d records, TC %t", got.Len(), len(got.Answer), got.Truncated)
			}
		})
	}
	if got := dnstest.ExchangeTCP(t, server.Addr(), "www.example.com", dns.TypeA); got.Truncated || len(got.Answer) != 60 {
		t.Errorf("over TCP: %d records, TC %t", len(got.Answer), got.Truncated)
	}
}

func TestRecordsThatCannotBeRead(t *testing.T) {
	for name, text := range map[string]string{
		"bad address":    "www.example.com. A 1.2.3",
		"no type":        "www.example.com.",
		"unknown type":   "www.example.com. IN NONSENSE x",
		"include":        "$INCLUDE /etc/hostname",
		"class CHAOS":    "version.bind. CH TXT x",
		"owner missing":  "www.example.com. A 192.0.2.1\n\t\tother.example.com. A 192.0.2.2",
		"label too long": strings.Repeat("a", 64) + ". A 192.0.2.1",
	} {
		t.Run(name, func(t *testing.T) {
			server, err := dnstest.Start(text)
			if err == nil {
				server.Close()
				t.Error("accepted")
			}
		})
	}
}
