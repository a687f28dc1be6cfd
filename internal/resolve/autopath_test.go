package resolve

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// world answers from records: "name type data", "name servfail|error|silent" or, after those of the
// name, "name deny type". A name without records does not exist.
//
// asked lists the queries in order.
type world struct {
	t       *testing.T
	records []string
	asked   []string
}

func (w *world) ServeDNS(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	question := q.Msg.Question[0]
	name, kind := strings.ToLower(question.Name), dns.TypeToString[question.Qtype]
	if !q.Name.IsZero() && q.Name.String() != name {
		w.t.Errorf("the question is %s but Query.Name is %s", question.Name, q.Name)
	}
	w.asked = append(w.asked, name+" "+kind)
	m := new(dns.Msg).SetRcode(q.Msg, dns.RcodeNameError)
	m.AuthenticatedData = true
	for _, record := range w.records {
		fields := strings.Fields(record)
		if fields[0] != name {
			continue
		}
		switch fields[1] {
		case "servfail":
			m.Rcode = dns.RcodeServerFailure
			return m, nil
		case "deny":
			if fields[2] == kind {
				m.Rcode = dns.RcodeNameError
				return m, nil
			}
			continue
		case "error":
			return nil, errWorld
		case "silent":
			return nil, nil
		}
		m.Rcode = dns.RcodeSuccess
		if fields[1] == kind || fields[1] == "CNAME" {
			rr, err := dns.NewRR(question.Name + " 30 IN " + strings.Join(fields[1:], " "))
			if err != nil {
				w.t.Fatal(err)
			}
			m.Answer = append(m.Answer, rr)
		}
	}
	return m, nil
}

var (
	errWorld = errors.New("the world is away")
	pod      = netip.MustParseAddr("10.128.0.7")
)

func searchOf(domains string) searchFunc {
	var list []dnsname.Name
	for _, domain := range strings.Fields(domains) {
		name, err := dnsname.Parse(domain)
		if err != nil {
			panic(err) // a constant of the tests
		}
		list = append(list, name)
	}
	return func(client netip.Addr) []dnsname.Name {
		if client != pod {
			return nil
		}
		return list
	}
}

const kubelets = "shop.svc.cluster.local svc.cluster.local cluster.local example.com"

// walker is an autopath with the arguments for each query.
type walker struct {
	autopath
	next   dnsserver.Handler
	search searchFunc
}

func newWalker(next dnsserver.Handler, search searchFunc) *walker {
	return &walker{next: next, search: search}
}

func ask(t *testing.T, a *walker, name, qtype string, client netip.Addr) (*dns.Msg, error) {
	t.Helper()
	m := new(dns.Msg).SetQuestion(name, dns.StringToType[qtype])
	parsed, _ := dnsname.Parse(name) // the zero Name for bytes that no Name has, as in dnsserver
	return a.serve(t.Context(), &dnsserver.Query{Msg: m, Name: parsed, Client: netip.AddrPortFrom(client, 4000), Proto: dnsserver.UDP}, a.next, a.search)
}

func TestAutopath(t *testing.T) {
	nxdomain := ";; NXDOMAIN"
	tests := []struct {
		name    string
		search  string // default: kubelets
		records []string
		ask     string // "name type"; default: google.com below the first domain, A
		client  string // default: the pod
		want    string
		asked   int
	}{
		{
			name: "external name", records: []string{"google.com. A 192.0.2.1"}, asked: 5,
			want: "google.com.shop.svc.cluster.local. 5 CNAME google.com.\ngoogle.com. 30 A 192.0.2.1",
		},
		{
			name: "letter case of the client", ask: "GooGle.COM.Shop.svc.cluster.LOCAL. A", records: []string{"google.com. A 192.0.2.1"}, asked: 5,
			want: "GooGle.COM.Shop.svc.cluster.LOCAL. 5 CNAME GooGle.COM.\nGooGle.COM. 30 A 192.0.2.1",
		},
		{
			name: "Service in the pod's namespace", ask: "web.shop.svc.cluster.local. A",
			records: []string{"web.shop.svc.cluster.local. A 172.30.0.9", "web. A 192.0.2.1"}, asked: 1,
			want: "web.shop.svc.cluster.local. 30 A 172.30.0.9",
		},
		{
			name: "Service in another namespace", ask: "web.pay.shop.svc.cluster.local. A",
			records: []string{"web.pay.svc.cluster.local. A 172.30.0.9", "web.pay. A 192.0.2.1"}, asked: 2,
			want: "web.pay.shop.svc.cluster.local. 5 CNAME web.pay.svc.cluster.local.\nweb.pay.svc.cluster.local. 30 A 172.30.0.9",
		},
		{
			name: "search domain of the site", ask: "printer.shop.svc.cluster.local. A", records: []string{"printer.example.com. A 192.0.2.9"}, asked: 4,
			want: "printer.shop.svc.cluster.local. 5 CNAME printer.example.com.\nprinter.example.com. 30 A 192.0.2.9",
		},
		{
			name: "CNAME with addresses", records: []string{"google.com. CNAME www.google.com.", "google.com. A 192.0.2.1"}, asked: 5,
			want: "google.com.shop.svc.cluster.local. 5 CNAME google.com.\ngoogle.com. 30 CNAME www.google.com.\ngoogle.com. 30 A 192.0.2.1",
		},
		{
			// getaddrinfo queries both families and stops if either has an address.
			name: "address of the other family only", ask: "web.pay.shop.svc.cluster.local. AAAA",
			records: []string{"web.pay.svc.cluster.local. A 172.30.0.9", "web.pay. AAAA 2001:db8::1"}, asked: 3,
			want: "web.pay.shop.svc.cluster.local. 5 CNAME web.pay.svc.cluster.local.",
		},
		{
			name: "query name has only the other family", ask: "web.shop.svc.cluster.local. AAAA",
			records: []string{"web.shop.svc.cluster.local. A 172.30.0.9", "web.svc.cluster.local. AAAA 2001:db8::1"}, asked: 1,
			want: "",
		},
		{
			// Servers as in RFC 4074 section 4.2. glibc uses the address of one host, musl
			// continues to the other.
			name: "NXDOMAIN for AAAA only", ask: "app.dev.shop.svc.cluster.local. AAAA",
			records: []string{"app.dev.example.com. A 192.0.2.9", "app.dev.example.com. deny AAAA", "app.dev. AAAA 2001:db8::1"}, asked: 7,
			want: nxdomain,
		},
		{
			// The namespace shop is an empty non-terminal: shop.svc.cluster.local exists but has no
			// addresses. There musl ends its search, and glibc continues to the site's shop.
			name: "name without addresses", ask: "shop.shop.svc.cluster.local. A",
			records: []string{"shop.svc.cluster.local. TXT x", "shop.example.com. A 192.0.2.9"}, asked: 3, want: nxdomain,
		},
		{
			// An ExternalName service whose target has no address: glibc and musl stop there. The
			// walk used to return the site's alias.
			name: "CNAME without addresses", ask: "alias.shop.svc.cluster.local. A",
			records: []string{"alias.shop.svc.cluster.local. CNAME txt.example.org.", "alias.example.com. A 192.0.2.66"}, asked: 1,
			want: "alias.shop.svc.cluster.local. 30 CNAME txt.example.org.",
		},
		{
			name: "CNAME without addresses in a later search domain", ask: "alias.pay.shop.svc.cluster.local. A",
			records: []string{"alias.pay.svc.cluster.local. CNAME txt.example.org.", "alias.pay.example.com. A 192.0.2.66"}, asked: 2,
			want: "alias.pay.shop.svc.cluster.local. 5 CNAME alias.pay.svc.cluster.local.\nalias.pay.svc.cluster.local. 30 CNAME txt.example.org.",
		},
		{name: "NXDOMAIN everywhere", want: nxdomain, asked: 5},
		{name: "another type", ask: "google.com.shop.svc.cluster.local. TXT", records: []string{"google.com. TXT x"}, want: nxdomain, asked: 1},
		{name: "remote pod", client: "10.128.0.8", records: []string{"google.com. A 192.0.2.1"}, want: nxdomain, asked: 1},
		{name: "IPv4-mapped address of the pod", client: "::ffff:10.128.0.7", records: []string{"google.com. A 192.0.2.1"}, asked: 5, want: "google.com.shop.svc.cluster.local. 5 CNAME google.com.\ngoogle.com. 30 A 192.0.2.1"},
		{name: "search list with one domain", search: "shop.svc.cluster.local", records: []string{"google.com. A 192.0.2.1"}, want: nxdomain, asked: 1},
		{name: "query in the second search domain", ask: "google.com.svc.cluster.local. A", records: []string{"google.com. A 192.0.2.1"}, want: nxdomain, asked: 1},
		{name: "query for the first search domain", ask: "shop.svc.cluster.local. A", records: []string{"google.com. A 192.0.2.1"}, want: nxdomain, asked: 1},
		{name: "root in the search list", search: "shop.svc.cluster.local .", records: []string{"google.com. A 192.0.2.1"}, asked: 2, want: "google.com.shop.svc.cluster.local. 5 CNAME google.com.\ngoogle.com. 30 A 192.0.2.1"},
		{name: "unusual octets", ask: `a\032b.shop.svc.cluster.local. A`, want: nxdomain, asked: 1},
		{name: "SERVFAIL in a later search domain", records: []string{"google.com.example.com. servfail", "google.com. A 192.0.2.1"}, want: nxdomain, asked: 4},
		{name: "SERVFAIL for the query name", records: []string{"google.com.shop.svc.cluster.local. servfail", "google.com. A 192.0.2.1"}, want: ";; SERVFAIL", asked: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := &world{t: t, records: test.records}
			name, qtype, _ := strings.Cut(or(test.ask, "google.com.shop.svc.cluster.local. A"), " ")
			a := newWalker(w, searchOf(or(test.search, kubelets)))
			m, err := ask(t, a, name, qtype, netip.MustParseAddr(or(test.client, pod.String())))
			if err != nil {
				t.Fatal(err)
			}
			if m.Question[0].Name != name && m.Rcode == dns.RcodeSuccess && len(m.Answer) > 0 && m.Answer[0].Header().Name != name {
				t.Errorf("the answer is for %s", m.Answer[0].Header().Name)
			}
			m.AuthenticatedData = m.AuthenticatedData && strings.Contains(test.want, "CNAME")
			if diff := dnstest.Diff(test.want, m); diff != "" {
				t.Error(diff)
			}
			if len(w.asked) != test.asked {
				t.Errorf("%d queries, want %d: %q", len(w.asked), test.asked, w.asked)
			}
		})
	}
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// TestErrors: an error of the handler does not become another name's answer. After an error on the
// way, the client continues by itself.
func TestErrors(t *testing.T) {
	for record, want := range map[string]error{"error": errWorld, "silent": nil} {
		const first = "google.com.shop.svc.cluster.local."
		w := &world{t: t, records: []string{first + " " + record}}
		if m, err := ask(t, newWalker(w, searchOf(kubelets)), first, "A", pod); m != nil || !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", record, m, err)
		}
		for _, at := range []string{"google.com.cluster.local.", "google.com."} {
			w := &world{t: t, records: []string{at + " " + record}}
			if m, err := ask(t, newWalker(w, searchOf(kubelets)), first, "A", pod); err != nil || m.Rcode != dns.RcodeNameError {
				t.Errorf("%s at %s: %v, %v", record, at, m, err)
			}
		}
	}
}

// TestOrder: the order is that of the resolver library (resolv.conf(5)), with ndots greater than
// the number of dots in the name.
func TestOrder(t *testing.T) {
	w := &world{t: t}
	if _, err := ask(t, newWalker(w, searchOf(kubelets)), "google.com.shop.svc.cluster.local.", "A", pod); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"google.com.shop.svc.cluster.local. A", "google.com.svc.cluster.local. A", "google.com.cluster.local. A",
		"google.com.example.com. A", "google.com. A",
	}
	if diff := cmp.Diff(want, w.asked); diff != "" {
		t.Error(diff)
	}
}

func TestStats(t *testing.T) {
	w := &world{t: t, records: []string{"google.com. A 192.0.2.1"}}
	a := newWalker(w, searchOf(kubelets))
	for _, name := range []string{"google.com", "www.example.org", "nowhere"} {
		if _, err := ask(t, a, name+".shop.svc.cluster.local.", "A", pod); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := a.stats(), (Walked{Answered: 1, Saved: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestLongNames: a name that is too long below a search domain is skipped, as libc does.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("a23456789.", 21) + "b2345." // 216 bytes of text
	search := "s.svc.cluster.local " + strings.Repeat("long.", 9) + "example.com example.org"
	w := &world{t: t, records: []string{long + "example.org. A 192.0.2.1"}}
	m, err := ask(t, newWalker(w, searchOf(search)), long+"s.svc.cluster.local.", "A", pod)
	if err != nil || len(m.Answer) != 2 || len(w.asked) != 2 {
		t.Errorf("got %v, %v, queries %q", m, err, w.asked)
	}
	if slices.ContainsFunc(w.asked, func(s string) bool { return strings.Contains(s, "long.") }) {
		t.Errorf("queries: %q", w.asked)
	}
}
