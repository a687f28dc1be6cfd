package alike

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

// Differences from dnsmasq 2.90 that the rows show.
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

// differences are the rows of a table in docs/appendix/dnsmasq.md.
var differences = [][2]string{
	{serverFails, "dnsmasq answers REFUSED, after which some clients give up"},
	{followsThere, "dnsmasq accepts the first server's records for the other server's names. This also applies to the cluster's zones"},
	{cappedAtOnce, "with dnsmasq the first client sees the upstream's TTL, and later clients see the limited one"},
	{ignoredFails, "dnsmasq is silent, and the client waits"},
	{smallestANY, "for local data too: a client that sends ANY only checks whether the name exists, or wants a large answer"},
	{fromCache, "`cname` is for local names; what dnsmasq adds depends on earlier queries"},
	{plainTypes, "dnsmasq refuses them"},
	{dottedStar, "in dnsmasq it does not include a.example itself"},
	{notValidated, "node-dns passes on the DO bit, signatures and the upstream's AD bit; check-config reports it"},
	{ourVersionHere, "other hosts have no need for it (`no-ident`)"},
	{passesAD, "to clients that request it (RFC 6840): the client knows whether it trusts the path, as with `trust-ad` in resolv.conf"},
	{changedAD, "its signature does not match; dnsmasq with proxy-dnssec marks it"},
	{clusterApart, "cluster names have private addresses, and a service or pod that moved must be found"},
	{rrExists, "dnsmasq answers NXDOMAIN for other types, which means that no type exists (RFC 8020)"},
	{ownQuestion, "a server that is wrong about one type is not wrong about all"},
	{stockCache, "[they disable caching](../reference/dnsmasq.md)"},
	{plainNames, "`domainNeeded: false` in node-dns.yaml forwards them"},
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
		{name: "dns-rr of a host's address", conf: "server=UP\nhost-record=h.corp,192.0.2.4\ndns-rr=4.2.0.192.in-addr.arpa,12,026f6b04636f727000", questions: []string{"4.2.0.192.in-addr.arpa PTR"}},
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
