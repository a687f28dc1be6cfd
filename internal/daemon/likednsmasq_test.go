package daemon

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/manpage"
)

// Two upstreams and their names. Common names have different addresses.
const (
	fileRecords = `
a.example. 300 IN A 203.1.113.1
a.example. 300 IN AAAA 2001:500::1
a.example. 300 IN TXT "first"
b.example. 300 IN A 203.1.113.2
c.example. 300 IN CNAME e.example.
e.example. 300 IN A 203.1.113.6
into.example. 300 IN CNAME a.example.
b.a.example. 300 IN A 203.1.113.11
short.example. 5 IN A 203.1.113.5
d.example. 300 IN MX 10 a.example.
x.cluster.test. 300 IN A 10.0.0.9
brief.cluster.test. 1 IN A 203.1.113.9
signed.example. 300 IN A 203.1.113.8
signed.example. 300 IN RRSIG A 8 2 300 20380101000000 20200101000000 1 example. c2lnbmF0dXJl
brief.example. 1 IN A 203.1.113.7
brief2.example. 1 IN CNAME brief.example.
brief. 1 IN SOA a.example. a.example. 1 2 3 4 1
plain. 300 IN A 203.1.113.3
plain. 300 IN TXT "plain"
private.example. 300 IN A 10.0.0.1
loop.example. 300 IN A 127.0.0.1
six.example. 300 IN AAAA fd00::1
mapped.example. 300 IN AAAA ::ffff:10.0.0.1
private.corp. 300 IN A 10.0.0.2
bogus.example. 300 IN A 203.1.113.66
bogus.example. 300 IN A 203.1.113.67
10.113.1.203.in-addr.arpa. 300 IN PTR up.example.
1.1.1.10.in-addr.arpa. 300 IN PTR ten.example.
1.1.2.10.in-addr.arpa. 300 IN PTR ten-two.example.
_ldap._tcp.example. 300 IN SRV 0 0 389 a.example.
example. 300 IN SOA a.example. a.example. 1 2 3 4 60
corp. 300 IN SOA a.example. a.example. 1 2 3 4 60
. 300 IN SOA a.example. a.example. 1 2 3 4 60
`
	otherRecords = `
a.example. 300 IN A 203.1.114.1
a.example. 300 IN TXT "second"
b.example. 300 IN A 203.1.114.2
b.a.example. 300 IN A 203.1.114.11
plain. 300 IN A 203.1.114.3
private.corp. 300 IN A 203.1.114.4
1.1.1.10.in-addr.arpa. 300 IN PTR other-ten.example.
1.1.2.10.in-addr.arpa. 300 IN PTR other-ten-two.example.
example. 300 IN SOA a.example. a.example. 1 2 3 4 60
. 300 IN SOA a.example. a.example. 1 2 3 4 60
`
)

// The reasons why answers differ. Each is listed in docs/appendix/dnsmasq.md.
const (
	serverFails    = "a name without a server is SERVFAIL"
	cappedAtOnce   = "max-cache-ttl and min-cache-ttl apply from the first answer"
	plainTypes     = "address=// forwards other types of single-label names"
	ignoredFails   = "an ignored answer is SERVFAIL"
	fromCache      = "the target of an alias is not taken from the cache"
	smallestANY    = "ANY is answered with one RRset (RFC 8482)"
	plainNames     = "single-label names are not forwarded, even without domain-needed"
	ourVersionHere = "version.bind names node-dns, and class CHAOS is answered to this host only"
	dottedStar     = "`/*.a.example/` means `/a.example/`"
	notValidated   = "dnssec does not validate"
	passesAD       = "the upstream's AD bit is passed on, also without proxy-dnssec and from the cache"
	changedAD      = "an address that alias changed is not marked as validated"
	clusterApart   = "stop-dns-rebind, bogus-nxdomain, alias and use-stale-cache do not apply to cluster names"
	rrExists       = "a name with only a dns-rr or caa-record exists"
	ownQuestion    = "NXDOMAIN is cached for the queried type only"
	followsThere   = "an alias into another server's domain is resolved by that server"
	stockCache     = "max-cache-ttl and no-negcache of openshift-ansible's own origin-dns.conf are ignored"
)

// askWhole sends a question and returns the answer on one line, with TTLs. A question is "NAME
// TYPE" plus options: ad, do, ch, size=BYTES (with EDNS; the answer then includes truncation and
// Extended DNS Errors), after=DURATION.
func askWhole(t *testing.T, at netip.AddrPort, question string) string {
	t.Helper()
	fields := strings.Fields(question)
	m := new(dns.Msg).SetQuestion(dns.Fqdn(fields[0]), typeOf(fields[1]))
	client := dns.Client{Timeout: time.Second}
	for _, option := range fields[2:] {
		switch how, value, _ := strings.Cut(option, "="); how {
		case "ad":
			m.AuthenticatedData = true
		case "ch":
			m.Question[0].Qclass = dns.ClassCHAOS
		case "do":
			m.SetEdns0(1232, true)
		case "size":
			size, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				t.Fatal(err)
			}
			m.SetEdns0(uint16(size), false)
			client.UDPSize = uint16(size)
		case "after": // the row waits before both are asked
		default:
			t.Fatalf("%s: unknown option %s", question, option)
		}
	}
	response, _, err := client.ExchangeContext(t.Context(), m, at.String())
	if err != nil {
		return question + ": no response"
	}
	return question + ": " + dns.RcodeToString[response.Rcode] + " " + strings.Join(wholeWords(response), ", ")
}

// typeOf parses a type name or "TYPE65280" (RFC 3597).
func typeOf(text string) uint16 {
	if qtype, ok := dns.StringToType[text]; ok {
		return qtype
	}
	n, _ := strconv.ParseUint(strings.TrimPrefix(text, "TYPE"), 10, 16) // 0 is not a query type
	return uint16(n)
}

// wholeWords returns the flags, errors and records of an answer, sorted.
func wholeWords(response *dns.Msg) (words []string) {
	if response.AuthenticatedData {
		words = append(words, "ad")
	}
	if response.Truncated {
		return append(words, "tc") // records of a truncated response are meaningless
	}
	if opt := response.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				words = append(words, fmt.Sprint("EDE ", e.InfoCode))
			}
		}
	}
	for _, rr := range response.Answer {
		words = append(words, strings.Join(strings.Fields(rr.String()), " "))
	}
	slices.Sort(words)
	return words
}

// startFiles starts dnsmasq with a configuration and with hosts as /etc/hosts. Settings of the test
// itself are on the command line. If another test takes the port first, dnsmasq ends and is started
// at another one.
func startFiles(t *testing.T, root, conf string) netip.AddrPort {
	t.Helper()
	path := filepath.Join(root, "theirs.conf")
	write(t, path, strings.ReplaceAll(conf, "ROOT", root)+"\n")
	for range 5 {
		if at, ok := tryFiles(t, root, path, conf); ok {
			return at
		}
	}
	log, _ := os.ReadFile(filepath.Join(root, "theirs.log"))
	t.Fatalf("dnsmasq does not answer\n%s", log)
	return netip.AddrPort{}
}

// tryFiles starts dnsmasq. It returns false if dnsmasq ends before it answers.
func tryFiles(t *testing.T, root, path, conf string) (at netip.AddrPort, ok bool) {
	t.Helper()
	at = dnstest.FreePort(t)
	args := []string{
		"--keep-in-foreground", "--conf-file=" + path, fmt.Sprintf("--port=%d", at.Port()), "--listen-address=127.0.0.1",
		"--bind-interfaces", "--no-resolv", "--log-facility=" + filepath.Join(root, "theirs.log"), "--user=", "--pid-file=",
	}
	if !strings.Contains(conf, "no-hosts") {
		args = append(args, "--no-hosts", "--addn-hosts="+filepath.Join(root, "etc/hosts"))
	}
	cmd := exec.Command("dnsmasq", args...)
	lab.StartBeside(t, cmd)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // killed, or failed to bind
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		select {
		case <-ended:
			return at, false
		default:
		}
		if !strings.HasSuffix(askWhole(t, at, "version.bind TXT ch"), "no response") {
			return at, true
		}
	}
	t.Fatal("dnsmasq runs and does not answer")
	return at, false
}

// hostsOfRows is the content of /etc/hosts.
const hostsOfRows = "192.0.2.20 host host2\n192.0.2.21 full.example full\n2001:db8::21 full.example\n192.0.2.22 under_score.example # c\n" +
	"192.0.2.23\tMiXed.Example\n127.0.0.9 near\n192.0.2.25 near\nnot a line\n192.0.2.24\n"

// A fileRow is a configuration for both programs and the questions for both.
type fileRow struct {
	name, conf string
	questions  []string // nil means every
	why        string   // why the answers differ; empty if they do not
	file       string   // name in /etc/dnsmasq.d; empty means test.conf
	beside     string   // content of another file in that directory
	ourDefault bool     // with the default of domainNeeded; otherwise it is as in the files
	counted    bool     // also compare the number of upstream queries
	ports      bool     // also compare whether upstream queries came from between min-port and max-port
}

// openshiftConf is what openshift-ansible installs on a node of OpenShift 3.11, without
// bind-dynamic, which conflicts with the bind-interfaces of startFiles.
const openshiftConf = "no-resolv\ndomain-needed\nno-negcache\nmax-cache-ttl=1\nenable-dbus\ndns-forward-max=10000\ncache-size=10000\n" +
	"min-port=1024\nexcept-interface=lo2\n# End of config\n"

// every returns the questions for a row without its own.
func every() []string {
	return []string{"a.example A", "a.example AAAA", "a.example TXT", "b.a.example A", "b.example A", "nowhere.example A", "c.example A", "plain A", "plain TXT"}
}

// fileRows returns the rows. UP, OTHER and BARE (which sends no SOA records) stand for the
// upstreams, ROOT for the root directory.
func fileRows() []fileRow {
	return []fileRow{
		{name: "server", conf: "server=UP"},
		{name: "nobody", conf: "cache-size=10", questions: []string{"a.example A"}, why: serverFails},
		{name: "server for a domain", conf: "server=UP\nserver=/a.example/OTHER"},
		{name: "alias into the domain of another server", conf: "server=UP\nserver=/a.example/OTHER", questions: []string{"into.example A", "into.example TXT"}, why: followsThere},
		{name: "server for two domains", conf: "server=UP\nserver=/a.example/b.example/OTHER"},
		{name: "standard servers", conf: "server=UP\nserver=/example/OTHER\nserver=/a.example/#"},
		{name: "server by an interface", conf: "server=UP\nserver=/a.example/OTHER@lo@127.0.0.1"},
		{name: "server below a domain", conf: "server=UP\nserver=/*.a.example/OTHER", questions: []string{"a.example A", "b.a.example A"}, why: dottedStar},
		{name: "server below a domain, of the others", conf: "server=UP\nserver=/*.a.example/OTHER", questions: []string{"b.a.example A", "b.example A"}},
		{name: "address below a domain", conf: "server=UP\naddress=/*.a.example/192.0.2.1", questions: []string{"b.a.example A", "x.b.a.example A", "b.example A"}},
		{name: "plain names", conf: "server=UP\nserver=//OTHER"},
		{name: "plain names with domain-needed", conf: "domain-needed\nserver=UP\nserver=//OTHER"},
		{name: "plain names locally", conf: "server=UP\nlocal=//"},
		{name: "empty", conf: "server=UP\nserver="},
		{name: "empty address", conf: "server=UP\naddress=\nlocal="},
		{name: "local", conf: "server=UP\nlocal=/a.example/"},
		{name: "local with an exception", conf: "server=UP\nlocal=/example/\nserver=/b.a.example/UP"},
		{name: "rev-server", conf: "server=UP\nrev-server=10.1.0.0/16,OTHER", questions: []string{"1.1.1.10.in-addr.arpa PTR", "1.1.2.10.in-addr.arpa PTR"}},
		{name: "rev-server between labels", conf: "server=UP\nrev-server=10.0.0.0/14,OTHER", questions: []string{"1.1.1.10.in-addr.arpa PTR", "1.1.2.10.in-addr.arpa PTR"}},
		{name: "without domain-needed", conf: "server=UP", questions: []string{"plain A"}, ourDefault: true, why: plainNames},
		{name: "without domain-needed, of other types", conf: "server=UP", questions: []string{"plain TXT"}, ourDefault: true},
		{name: "domain-needed", conf: "domain-needed\nserver=UP", questions: []string{"plain A", "plain AAAA", "plain TXT", "a.example A"}},
		{name: "address", conf: "server=UP\naddress=/a.example/192.0.2.1"},
		{name: "address of both families", conf: "server=UP\naddress=/a.example/192.0.2.1\naddress=/a.example/2001:db8::1"},
		{name: "two addresses", conf: "server=UP\naddress=/a.example/192.0.2.1\naddress=/a.example/192.0.2.2"},
		{name: "address of no name", conf: "server=UP\naddress=/a.example/"},
		{name: "address #", conf: "server=UP\naddress=/a.example/#"},
		{name: "address of two domains", conf: "server=UP\naddress=/a.example/b.example/192.0.2.1"},
		{name: "address of all names", conf: "server=UP\naddress=/#/192.0.2.1"},
		{name: "address without a domain", conf: "server=/a.example/UP\nserver=/plain/UP\naddress=192.0.2.1", questions: []string{"a.example A", "b.example A", "plain A"}},
		{name: "address of plain names", conf: "server=UP\naddress=//192.0.2.1", why: plainTypes},
		{name: "address, and a server below", conf: "server=UP\naddress=/example/192.0.2.1\nserver=/a.example/OTHER"},
		{name: "address and server of a domain", conf: "server=UP\naddress=/a.example/192.0.2.1\nserver=/a.example/OTHER"},
		{name: "address and local", conf: "server=UP\naddress=/a.example/192.0.2.1\nlocal=/a.example/"},
		{name: "host-record", conf: "server=UP\nhost-record=h.corp,h2.corp,192.0.2.4,2001:db8::4,77\nhost-record=a.example,192.0.2.5", questions: []string{
			"h.corp A", "h.corp AAAA", "h.corp TXT", "h2.corp A", "a.example A", "a.example AAAA", "a.example TXT", "x.h.corp A",
			"4.2.0.192.in-addr.arpa PTR", "5.2.0.192.in-addr.arpa PTR",
		}},
		{name: "host-records of one name", conf: "server=UP\nhost-record=h.corp,192.0.2.4\nhost-record=h.corp,192.0.2.5\nhost-record=g.corp,192.0.2.4", questions: []string{
			"h.corp A", "4.2.0.192.in-addr.arpa PTR",
		}},
		{name: "host-record with several addresses", conf: "server=UP\nhost-record=h.corp,192.0.2.4,192.0.2.5,2001:db8::4,2001:db8::5", questions: []string{
			"h.corp A", "h.corp AAAA", "4.2.0.192.in-addr.arpa PTR", "5.2.0.192.in-addr.arpa PTR",
		}},
		{name: "host-record and local", conf: "server=UP\nlocal=/corp/\nhost-record=h.corp,192.0.2.4", questions: []string{"h.corp A", "h.corp AAAA", "h.corp TXT", "corp A", "x.corp A"}},
		{name: "host-record and address", conf: "server=UP\naddress=/corp/192.0.2.9\nhost-record=h.corp,192.0.2.4", questions: []string{"h.corp A", "x.corp A", "h.corp AAAA"}},
		{name: "cname", conf: "server=UP\nhost-record=h.corp,192.0.2.4\ncname=al.corp,h.corp\ncname=al2.corp,al3.corp,al.corp,66", questions: []string{
			"al.corp A", "al.corp AAAA", "al2.corp A", "al3.corp TXT", "al.corp CNAME",
		}},
		{name: "host-record and ANY", conf: "server=UP\nhost-record=h.corp,192.0.2.4,2001:db8::4", questions: []string{"h.corp ANY"}, why: smallestANY},
		{name: "cname and ANY", conf: "server=UP\nhost-record=h.corp,192.0.2.4\ncname=al.corp,h.corp", questions: []string{"al.corp ANY"}, why: smallestANY},
		{name: "cname of an upstream's name", conf: "server=UP\ncname=al.corp,a.example", questions: []string{"al.corp A", "al.corp TXT"}},
		{name: "cname of an upstream's name that is cached", conf: "server=UP\ncname=al.corp,a.example", questions: []string{"a.example A", "al.corp A"}, why: fromCache},
		{name: "cname of an address", conf: "server=UP\naddress=/a.example/192.0.2.1\ncname=al.corp,a.example", questions: []string{"al.corp A"}},
		{name: "cname over a host-record", conf: "server=UP\nlocal=/corp/\ncname=al.corp,h.corp\nhost-record=h.corp,192.0.2.4\nhost-record=al.corp,192.0.2.5", questions: []string{"al.corp A", "al.corp AAAA"}},
		{name: "cname with a wildcard", conf: "server=UP\ncname=*.corp,a.example", questions: []string{"al.corp A"}},
		{name: "txt-record", conf: "server=UP\ntxt-record=t.corp,\"a b\",c\ntxt-record=q.corp,\"x\\\"y\\\\z, é\"\ntxt-record=e.corp", questions: []string{"t.corp TXT", "t.corp A", "q.corp TXT", "e.corp TXT", "T.CORP TXT"}},
		{name: "srv-host", conf: "server=UP\nsrv-host=_ldap._tcp.corp,a.example,389,1,2\nsrv-host=_none._tcp.corp\nsrv-host=_one._tcp.corp,a.example", questions: []string{
			"_ldap._tcp.corp SRV", "_none._tcp.corp SRV", "_one._tcp.corp SRV", "_ldap._tcp.corp TXT",
		}},
		{name: "ptr-record", conf: "server=UP\nptr-record=_http._tcp.corp,x.corp\nptr-record=4.2.0.192.in-addr.arpa,p.corp\nhost-record=h.corp,192.0.2.4", questions: []string{"_http._tcp.corp PTR", "4.2.0.192.in-addr.arpa PTR"}},
		{name: "mx-host", conf: "server=UP\nmx-host=m.corp,mx.corp,20\nmx-host=m2.corp,mx.corp\nmx-host=m3.corp,7\nmx-target=t.corp", questions: []string{"m.corp MX", "m2.corp MX", "m3.corp MX", "m.corp A"}},
		{name: "mx-host of this host", conf: "server=UP\nmx-host=m.corp", questions: []string{"m.corp MX"}},
		{name: "hosts", conf: "server=UP", questions: []string{
			"host A", "host2 A", "full.example A", "full.example AAAA", "full A", "under_score.example A", "mixed.example A", "20.2.0.192.in-addr.arpa PTR",
			"23.2.0.192.in-addr.arpa PTR", "full.example TXT", "host.dom.test A",
		}},
		{name: "no-hosts", conf: "server=UP\nno-hosts", questions: []string{"full.example A"}},
		{name: "addn-hosts", conf: "server=UP\nno-hosts\naddn-hosts=ROOT/etc/more\naddn-hosts=ROOT/etc/nosuch", questions: []string{"full.example A", "more.example A"}},
		{name: "expand-hosts", conf: "server=UP\nexpand-hosts\ndomain=dom.test", questions: []string{"host A", "host.dom.test A", "host2.dom.test A", "full.dom.test A", "20.2.0.192.in-addr.arpa PTR", "21.2.0.192.in-addr.arpa PTR"}},
		{name: "expand-hosts before its domain", conf: "expand-hosts\nserver=UP\naddn-hosts=ROOT/etc/more\ndomain=dom.test", questions: []string{"more2.dom.test A"}},
		{name: "hostsdir", conf: "server=UP\nno-hosts\nhostsdir=ROOT/etc/more.d", questions: []string{"full.example A", "dir.example A"}},
		{name: "conf-file and conf-dir", conf: "server=UP\nconf-file=ROOT/etc/extra.conf\nconf-dir=ROOT/etc/extra.d,*.conf", questions: []string{"extra.corp A", "in-dir.corp A", "not.corp A"}},
		{name: "domain-suffix", conf: "server=UP\nexpand-hosts\ndomain-suffix=dom.test", questions: []string{"host.dom.test A"}},
		{name: "neg-ttl with a SOA", conf: "server=UP\nneg-ttl=7", questions: []string{"nowhere.example A", "nowhere.example A", "nowhere.example A after=1s"}, counted: true},
		{name: "neg-ttl without a SOA", conf: "server=BARE\nneg-ttl=60", questions: []string{"nowhere.example A", "nowhere.example A"}, counted: true},
		{name: "NXDOMAIN, and another type", conf: "server=UP", questions: []string{"nowhere.example A", "nowhere.example TXT"}, counted: true, why: ownQuestion},
		{name: "neg-ttl that is over", conf: "server=BARE\nneg-ttl=2", questions: []string{"nowhere.example A", "nowhere.example A", "nowhere.example A after=3s"}, counted: true},
		{name: "no neg-ttl, and no SOA", conf: "server=BARE", questions: []string{"nowhere.example A", "nowhere.example A"}, counted: true},
		{name: "rebind-domain-ok of plain names", conf: "domain-needed\nserver=UP\nstop-dns-rebind\nrebind-domain-ok=//", questions: []string{"private.example A"}},
		{name: "local-ttl", conf: "server=UP\nlocal-ttl=50\naddress=/corp/192.0.2.1\nhost-record=h.corp,192.0.2.4\nhost-record=t.corp,192.0.2.5,9\ncname=al.corp,h.corp", questions: []string{"x.corp A", "h.corp A", "t.corp A", "al.corp A", "full.example A"}},
		{name: "max-ttl", conf: "server=UP\nmax-ttl=7\nlocal-ttl=50\nhost-record=h.corp,192.0.2.4", questions: []string{"a.example A", "a.example A", "h.corp A", "short.example A"}},
		{name: "max-cache-ttl", conf: "server=UP\nmax-cache-ttl=7", questions: []string{"a.example A", "a.example A"}, why: cappedAtOnce},
		{name: "max-cache-ttl of a short one", conf: "server=UP\nmax-cache-ttl=7", questions: []string{"short.example A", "short.example A"}},
		{name: "min-cache-ttl", conf: "server=UP\nmin-cache-ttl=60", questions: []string{"short.example A", "short.example A", "a.example A"}, why: cappedAtOnce},
		{name: "no-negcache", conf: "server=UP\nno-negcache", questions: []string{"nowhere.example A", "nowhere.example A"}, counted: true},
		{name: "filter-A", conf: "server=UP\nfilter-A\nhost-record=h.corp,192.0.2.4", questions: append([]string{"h.corp A"}, every()...)},
		{name: "filter-AAAA", conf: "server=UP\nfilter-AAAA"},
		{name: "filterwin2k", conf: "server=UP\nfilterwin2k", questions: []string{"_ldap._tcp.example SRV", "example SOA", "a.example A"}},
		{name: "bogus-priv", conf: "server=UP\nbogus-priv\nhost-record=h.corp,10.1.1.9", questions: []string{"1.1.1.10.in-addr.arpa PTR", "9.1.1.10.in-addr.arpa PTR", "10.113.1.203.in-addr.arpa PTR"}},
		{name: "bogus-priv with rev-server", conf: "server=UP\nbogus-priv\nrev-server=10.1.0.0/16,OTHER", questions: []string{"1.1.1.10.in-addr.arpa PTR", "1.1.2.10.in-addr.arpa PTR"}},
		{name: "bogus-nxdomain", conf: "server=UP\nbogus-nxdomain=203.1.113.66\nbogus-nxdomain=203.1.113.2/31", questions: []string{"bogus.example A", "a.example A", "b.example A"}},
		{name: "ignore-address", conf: "server=UP\nignore-address=203.1.113.66", questions: []string{"a.example A", "bogus.example A"}, why: ignoredFails},
		{name: "stop-dns-rebind", conf: "server=UP\nstop-dns-rebind", questions: []string{"private.example A", "loop.example A", "six.example AAAA", "mapped.example AAAA", "private.corp A", "a.example A"}},
		{name: "rebind-localhost-ok", conf: "server=UP\nstop-dns-rebind\nrebind-localhost-ok", questions: []string{"private.example A", "loop.example A"}},
		{name: "rebind-domain-ok", conf: "server=UP\nstop-dns-rebind\nrebind-domain-ok=/corp/x.test/", questions: []string{"private.example A", "private.corp A"}},
		{name: "rebind of local data", conf: "server=UP\nstop-dns-rebind\naddress=/corp/10.0.0.9", questions: []string{"private.corp A"}},
		{name: "resolv-file", conf: "server=UP\nresolv-file=ROOT/etc/nosuch"},
		{name: "all-servers", conf: "all-servers\nserver=UP\nserver=/corp/OTHER", questions: every()},
		{name: "strict-order", conf: "strict-order\nserver=UP\nserver=OTHER", questions: []string{"a.example TXT"}},
		{name: "edns-packet-max below the client's size", conf: "server=UP\nedns-packet-max=512", questions: []string{"big.example TXT size=4096", "a.example A size=4096"}},
		{name: "edns-packet-max above", conf: "server=UP\nedns-packet-max=4000", questions: []string{"big.example TXT size=4096", "big.example TXT size=2000", "big.example TXT"}},
		{name: "edns-packet-max without a value", conf: "server=UP\nedns-packet-max=0", questions: []string{"big.example TXT size=4096"}},
		{name: "no edns-packet-max", conf: "server=UP", questions: []string{"big.example TXT size=4096"}},
		{name: "min-port and max-port", conf: "server=UP\nmin-port=20000\nmax-port=22047", questions: []string{"a.example A", "b.example A", "a.example TXT"}, ports: true},
		{name: "max-port alone", conf: "server=UP\nmax-port=2047", questions: []string{"a.example A", "b.example A", "a.example TXT"}, ports: true},
		{name: "min-port alone", conf: "server=UP\nmin-port=64000", questions: []string{"a.example A", "b.example A", "a.example TXT"}, ports: true},
		{name: "use-stale-cache", conf: "server=UP\nuse-stale-cache", questions: []string{"brief.example A size=1232", "brief.example A size=1232 after=2100ms"}},
		{name: "use-stale-cache of an alias and of NXDOMAIN", conf: "server=UP\nuse-stale-cache=0", questions: []string{"brief2.example A", "no.brief A", "brief2.example A after=2100ms", "no.brief A"}},
		{name: "use-stale-cache that is over", conf: "server=UP\nuse-stale-cache=1", questions: []string{"brief.example A", "brief.example A after=3100ms"}, counted: true},
		{name: "dns-rr", conf: "server=UP\ndns-rr=r.corp,16,03:61:62:63\ndns-rr=r.corp,65280,00010\ndns-rr=e.corp,65280\ndns-rr=a4.corp,1,c0000209\ndns-rr=bad.corp,1,c000", questions: []string{
			"r.corp TXT", "r.corp TYPE65280", "e.corp TYPE65280", "a4.corp A", "R.corp TXT",
		}},
		{name: "dns-rr and other types", conf: "server=UP\ndns-rr=r.corp,16,0161", questions: []string{"r.corp A"}, why: rrExists},
		{name: "caa-record and other types", conf: "server=UP\ncaa-record=c.corp,128,issue,ca.test", questions: []string{"c.corp A"}, why: rrExists},
		{name: "dns-rr with local-ttl", conf: "server=UP\nlocal-ttl=30\ndns-rr=r.corp,16,0161", questions: []string{"r.corp TXT"}},
		{name: "caa-record and naptr-record", conf: "server=UP\ncaa-record=c.corp,128,issue,ca.test\nnaptr-record=n.corp,10,20,s,SIP+D2U,,_sip._udp.corp\nnaptr-record=n.corp,10,30,u,E2U+sip,\"!^.*$!sip:a@corp!\"", questions: []string{
			"c.corp CAA", "n.corp NAPTR", "n.corp A",
		}},
		{name: "alias", conf: "server=UP\nalias=203.1.113.1,192.0.2.1", questions: append([]string{"d.example MX"}, every()...)},
		{name: "alias of a network", conf: "server=UP\nalias=203.1.113.0,10.9.8.0,255.255.255.0", questions: []string{"a.example A", "c.example A", "bogus.example A", "private.example A", "c.example A"}},
		{name: "alias of a range", conf: "server=UP\nalias=203.1.113.2-203.1.113.10,10.9.8.0,255.255.255.0", questions: []string{"a.example A", "b.example A", "b.a.example A"}},
		{name: "alias with gaps in the mask", conf: "server=UP\nalias=203.0.113.0,10.9.8.0,255.0.255.0", questions: []string{"a.example A"}},
		{name: "two aliases", conf: "server=UP\nalias=203.1.113.0,10.9.8.0,255.255.255.0\nalias=203.1.113.1,192.0.2.1\nalias=192.0.2.1,192.0.2.2", questions: []string{"a.example A", "b.example A"}},
		{name: "two aliases, the other way round", conf: "server=UP\nalias=203.1.113.1,192.0.2.1\nalias=203.1.113.0,10.9.8.0,255.255.255.0", questions: []string{"a.example A", "b.example A"}},
		{name: "alias and local data", conf: "server=UP\nalias=192.0.2.4,192.0.2.9\nhost-record=h.corp,192.0.2.4\naddress=/x.corp/192.0.2.4", questions: []string{"h.corp A", "x.corp A"}},
		{name: "alias and rebinding", conf: "server=UP\nalias=203.1.113.1,10.0.0.9\nalias=10.0.0.1,203.1.113.9\nstop-dns-rebind", questions: []string{"a.example A", "private.example A", "b.example A"}},
		{name: "alias and bogus-nxdomain", conf: "server=UP\nalias=203.1.113.1,203.1.113.66\nalias=203.1.113.67,203.1.113.1\nbogus-nxdomain=203.1.113.66", questions: []string{"a.example A", "bogus.example A"}},
		{name: "alias of a bogus address", conf: "server=UP\nalias=203.1.113.66,203.1.113.1\nbogus-nxdomain=203.1.113.66", questions: []string{"bogus.example A"}},
		{name: "alias and ignore-address", conf: "server=UP\nalias=203.1.113.66,203.1.113.1\nignore-address=203.1.113.1", questions: []string{"bogus.example A", "b.example A"}},
		{name: "alias and AD", conf: "server=UP\nproxy-dnssec\nalias=203.1.113.8,203.1.113.9", questions: []string{"signed.example A ad"}, why: changedAD},
		{name: "rebind of the cluster's", conf: "server=/cluster.test/UP\nstop-dns-rebind", questions: []string{"x.cluster.test A"}, why: clusterApart},
		{name: "bogus-nxdomain of the cluster's", conf: "server=/cluster.test/UP\nbogus-nxdomain=10.0.0.9", questions: []string{"x.cluster.test A"}, why: clusterApart},
		{name: "alias of the cluster's", conf: "server=/cluster.test/UP\nalias=10.0.0.9,10.0.0.8", questions: []string{"x.cluster.test A"}, why: clusterApart},
		{name: "use-stale-cache of the cluster's", conf: "server=/cluster.test/UP\nuse-stale-cache", questions: []string{"brief.cluster.test A", "brief.cluster.test A after=2100ms"}, why: clusterApart},
		{name: "localise-queries", conf: "server=UP\nlocalise-queries\nhost-record=two.corp,192.0.2.4\nhost-record=two.corp,127.0.0.9\nhost-record=two.corp,127.9.9.9\nhost-record=far.corp,192.0.2.4\nhost-record=far.corp,192.0.2.5\ncname=al.corp,two.corp\n" +
			"host-record=six.corp,::1\nhost-record=six.corp,2001:db8::1\naddress=/dom.corp/127.0.0.8\naddress=/dom.corp/192.0.2.8", questions: []string{
			"near A", "two.corp A", "al.corp A", "far.corp A", "six.corp AAAA", "dom.corp A", "two.corp ANY",
		}},
		{name: "no localise-queries", conf: "server=UP", questions: []string{"near A"}},
		{name: "dnssec", conf: "server=UP\ndnssec\ntrust-anchor=.,20326,8,2,E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D", questions: []string{"a.example A"}, why: notValidated},
		{name: "numbers of class CHAOS", conf: "server=UP\ncache-size=77", questions: []string{
			"a.example A", "a.example A", "cachesize.bind TXT ch", "misses.bind TXT ch", "evictions.bind TXT ch", "auth.bind TXT ch", "servers.bind TXT ch", "Insertions.Bind TXT ch",
		}},
		{name: "version.bind", conf: "server=UP", questions: []string{"version.bind TXT ch"}, why: ourVersionHere},
		{name: "proxy-dnssec", conf: "server=UP\nproxy-dnssec", questions: []string{"signed.example A ad", "a.example A ad"}},
		{name: "proxy-dnssec without the question", conf: "server=UP\nproxy-dnssec", questions: []string{"signed.example A", "signed.example A do"}},
		{name: "proxy-dnssec, from memory", conf: "server=UP\nproxy-dnssec", questions: []string{"signed.example A ad", "signed.example A ad"}, why: passesAD},
		{name: "no proxy-dnssec", conf: "server=UP", questions: []string{"signed.example A ad", "signed.example A"}, why: passesAD},
		{name: "quotes, blanks and comments", conf: "  server = UP # first\n\taddress = \"/a.example/\"192.0.2.1\r\n#address=/b.example/192.0.2.1"},
		{name: "what OpenShift 3 installs", conf: openshiftConf, file: "origin-dns.conf", beside: "server=UP", questions: []string{"nowhere.example A", "nowhere.example A", "short.example A"}, counted: true, why: stockCache},
		{name: "OpenShift 3's file, under another name", conf: openshiftConf, beside: "server=UP", questions: []string{"nowhere.example A", "nowhere.example A"}, counted: true},
		{name: "OpenShift 3's file, changed", conf: openshiftConf + "no-poll", file: "origin-dns.conf", beside: "server=UP", questions: []string{"nowhere.example A", "nowhere.example A"}, counted: true},
	}
}

// TestFilesLikeDnsmasq gives the same files to dnsmasq 2.90 and to node-dns and compares their
// answers. A row with different answers must give a reason, and a row with a reason must differ.
func TestFilesLikeDnsmasq(t *testing.T) {
	t.Parallel()
	lab.NeedPrograms(t, "dnsmasq")
	for _, row := range fileRows() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			upstreams := startUpstreams(t)
			var words []string
			for i, word := range []string{"UP", "OTHER", "BARE"} {
				words = append(words, word, strings.Replace(upstreams[i].Addr().String(), ":", "#", 1))
			}
			here := strings.NewReplacer(words...)
			row.conf, row.beside = here.Replace(row.conf), here.Replace(row.beside)
			for attempt := 1; ; attempt++ {
				want, got, isSlow := row.answers(t, upstreams)
				switch {
				case slices.Equal(got, want) == (row.why == ""):
				case isSlow && attempt < 4:
					continue // a cached answer may have expired in one of the two
				default:
					t.Errorf("theirs %s\nours   %s", strings.Join(want, "\n       "), strings.Join(got, "\n       "))
				}
				return
			}
		})
	}
}

// startUpstreams returns the nameservers UP, OTHER and BARE of a row. Rows count their queries.
func startUpstreams(t *testing.T) []*dnstest.Server {
	t.Helper()
	bare := dnstest.NewServer(t, "")
	bare.SetFaults(dnstest.Faults{NoSOA: true})
	return []*dnstest.Server{dnstest.NewServer(t, fileRecords+bigRecords()), dnstest.NewServer(t, otherRecords), bare}
}

// answers returns the answers of dnsmasq and node-dns to the row's questions. isSlow reports that a
// question took so long that a TTL may differ by a second.
func (row fileRow) answers(t *testing.T, upstreams []*dnstest.Server) (want, got []string, isSlow bool) {
	t.Helper()
	r := start(t, row.files())
	theirs := startFiles(t, r.root, row.conf+"\n"+row.beside)
	questions := row.questions
	if questions == nil {
		questions = every()
	}
	ask := func(at netip.AddrPort, question string) string {
		before, begun := timesAsked(upstreams, question), time.Now()
		answer := askWhole(t, at, question)
		if row.ports {
			answer += portsAsked(row.conf, upstreams, question)
		}
		if row.counted {
			answer += fmt.Sprintf(", asked %d times", timesAsked(upstreams, question)-before)
		}
		isSlow = isSlow || time.Since(begun) > 200*time.Millisecond
		return answer
	}
	ours := r.address()
	for i, question := range questions {
		if _, after, found := strings.Cut(question, " after="); found {
			pause, err := time.ParseDuration(after)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(pause) // until a TTL has expired in both
		}
		their, our := ask(theirs, question), ask(ours, question)
		if slices.ContainsFunc(questions[:i], func(q string) bool { return strings.HasPrefix(question, q) || strings.HasPrefix(q, question) }) {
			their, our = remembered(their), remembered(our)
		}
		want, got = append(want, their), append(got, our)
	}
	return want, got, isSlow
}

// remembered rounds TTLs up to a multiple of 5, to undo a countdown of some seconds.
func remembered(answer string) string {
	return regexp.MustCompile(` \d+ IN `).ReplaceAllStringFunc(answer, func(text string) string {
		ttl, _ := strconv.Atoi(strings.Fields(text)[0]) // digits
		return fmt.Sprintf(" %d IN ", (ttl+4)/5*5)
	})
}

// files returns the files of our host. They have the same lines in the same order as dnsmasq's,
// with other path prefixes.
func (row fileRow) files() map[string]string {
	ours := "clusterDomain: cluster.test\n"
	if !row.ourDefault && !strings.Contains(row.conf, "domain-needed") {
		ours += "domainNeeded: false\n"
	}
	return map[string]string{
		"/etc/dnsmasq.d/" + cmp.Or(row.file, "test.conf"): strings.ReplaceAll(row.conf, "ROOT", ""),
		"/etc/dnsmasq.d/z.conf":                           row.beside, "/etc/hosts": hostsOfRows,
		"/etc/more.d/x": "192.0.2.31 dir.example\n", "/etc/extra.conf": "address=/extra.corp/192.0.2.32\n",
		"/etc/extra.d/a.conf": "address=/in-dir.corp/192.0.2.33\n", "/etc/extra.d/b.txt": "address=/not.corp/192.0.2.34\n",
		"/etc/more": "192.0.2.30 more.example more2\n", "/etc/node-dns/node-dns.yaml": ours,
	}
}

// bigRecords returns 3000 bytes of records.
func bigRecords() string {
	var b strings.Builder
	for i := range 12 {
		fmt.Fprintf(&b, "big.example. 300 IN TXT \"%s%d\"\n", strings.Repeat("x", 230), i)
	}
	return b.String()
}

// timesAsked returns how often the upstreams received a question.
func timesAsked(upstreams []*dnstest.Server, question string) int {
	fields := strings.Fields(question)
	sum := 0
	for _, server := range upstreams {
		sum += server.QueriesFor(fields[0], typeOf(fields[1]))
	}
	return sum
}

// TestLogLikeDnsmasq: our log has the lines that dnsmasq writes about its servers. For standard
// servers dnsmasq writes one line per domain, and node-dns one per server.
func TestLogLikeDnsmasq(t *testing.T) {
	lab.NeedPrograms(t, "dnsmasq")
	const conf = "no-hosts\nserver=192.0.2.1\nserver=/a.test/192.0.2.2#5353\nserver=//192.0.2.3\nlocal=/home/\nserver=/x.a.test/#\nserver=192.0.2.9@lo\n" +
		"rev-server=192.168.0.0/24,192.0.2.4\nserver=2001:db8::1"
	log := new(lab.Text)
	r := start(t, map[string]string{"/etc/dnsmasq.conf": conf, "/etc/node-dns/node-dns.yaml": "clusterDomain: cluster.test\n"}, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	startFiles(t, r.root, conf)
	theirs, err := os.ReadFile(filepath.Join(r.root, "theirs.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := func(text string) (lines []string) {
		for line := range strings.Lines(text) {
			_, line, found := strings.Cut(line, "using ")
			if line = strings.TrimRight(line, " \n\""); found && !strings.Contains(line, "standard nameservers") && !strings.HasSuffix(line, "for domain x.a.test") {
				lines = append(lines, line)
			}
		}
		slices.Sort(lines)
		return slices.Compact(lines) // dnsmasq writes them again for each inotify event
	}
	if diff := gocmp.Diff(lines(string(theirs)), lines(log.String())); diff != "" {
		t.Errorf("-dnsmasq +node-dns\n%s", diff)
	}
}

// portsAsked reports whether the last upstream query for a question came from between min-port and
// max-port.
func portsAsked(conf string, upstreams []*dnstest.Server, question string) string {
	limit := func(option string, otherwise uint64) uint64 {
		_, rest, _ := strings.Cut("\n"+conf, "\n"+option+"=")
		text, _, _ := strings.Cut(rest, "\n")
		if n, err := strconv.ParseUint(text, 10, 16); err == nil {
			return n
		}
		return otherwise
	}
	fields := strings.Fields(question)
	for _, server := range upstreams {
		for _, q := range slices.Backward(server.Received()) {
			asked := q.Msg.Question[0]
			if q.Network == "udp" && asked.Name == dns.Fqdn(fields[0]) && asked.Qtype == typeOf(fields[1]) {
				port := uint64(q.Client.Port())
				return fmt.Sprintf(", between min-port and max-port %v", limit("min-port", 1024) <= port && port <= limit("max-port", 65535))
			}
		}
	}
	return ", nobody asked"
}

// TestFileRows: each option that is followed has a row, and the differences that the rows show are
// those of docs/appendix/dnsmasq.md.
func TestFileRows(t *testing.T) {
	elsewhere := []string{"listen-address", "interface", "port", "log-queries"} // not visible in answers
	set := map[string]bool{}
	var reasons []string
	for _, row := range fileRows() {
		for line := range strings.Lines(row.conf) {
			option, _, _ := strings.Cut(line, "=")
			set[strings.TrimSpace(option)] = true
		}
		if row.why != "" && !slices.Contains(reasons, row.why) {
			reasons = append(reasons, row.why)
		}
	}
	for _, option := range dnsmasqconf.Followed() {
		if set[option] == slices.Contains(elsewhere, option) {
			t.Errorf("%s: has a row: %v", option, set[option])
		}
	}
	slices.Sort(reasons)
	if diff := gocmp.Diff(reasons, manpage.Column(t, "../../docs/appendix/dnsmasq.md", "## Answers")); diff != "" {
		t.Errorf("-rows +docs/appendix/dnsmasq.md\n%s", diff)
	}
}
