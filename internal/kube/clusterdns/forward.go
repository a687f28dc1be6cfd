package clusterdns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// forwardOptions are the options of the plugins forward and proxy that do not change which server
// gets which name.
var forwardOptions = plugins(`expire fail_timeout failfast_all_unhealthy_upstreams failover force_tcp health_check max_age max_concurrent
	max_connect_attempts max_fails max_idle_conns next policy prefer_udp spray`)

// A forward is a line of the plugin forward.
type forward struct {
	at      token
	except  map[dnsname.Name]bool
	servers []nameserver.Server
	// isKept means that the servers are not followed, so that other servers must not get the names
	// either. The reason has been reported, unless the servers are the site's.
	isKept bool
	isSite bool // the servers are the site's
}

// isForward reports whether a plugin is forward, or proxy of old versions.
func isForward(d directive) bool { return d.name.text == "forward" || d.name.text == "proxy" }

// readForward reads forward FROM TO... { OPTIONS }.
func (c *corefile) readForward(b *server, d directive) {
	where := d.name.where()
	if len(d.args) < 2 {
		c.report(where, "%s: expected a domain and at least one server", d.name.text)
		c.keepUnknown(where)
		return
	}
	from, _, wrong := parseZone(d.args[0])
	if wrong != "" {
		c.report(where, "domain %s: %s", quote(d.args[0].text), wrong)
		c.keepUnknown(where)
		return
	}
	f := forward{at: d.name, except: map[dnsname.Name]bool{}}
	name, isKept := c.readForwardOptions(&f, d)
	f.servers = c.readServers(where, d.args[1:], name)
	f.isKept = isKept || len(f.servers) == 0
	f.isSite = !slices.ContainsFunc(d.args[1:], func(t token) bool { return !isFile(t) })
	domains := c.within(b, from, where)
	if len(domains) == 0 && c.pairs <= maxPairs {
		c.report(where, "%s has no names in common with the zones of its server block", from.Relative())
	}
	for _, domain := range domains {
		c.addForward(b, domain, f)
	}
}

// addForward adds the route of a domain, unless CoreDNS never reaches it.
func (c *corefile) addForward(b *server, domain dnsname.Name, f forward) {
	where := f.at.where()
	for zone := domain; !zone.IsZero(); zone = zone.Parent() {
		if at, ok := b.answered[zone]; ok {
			c.report(where, "the plugin at %s answers all names of %s", at, domain.Relative())
			return
		}
		first, ok := b.forwards[zone]
		if ok && first.at != f.at && !isBelow(domain, first.except) {
			c.report(where, "%s also forwards %s", first.at.where(), domain.Relative())
			return
		}
	}
	if !c.isServed(b, domain, where) {
		return
	}
	if _, ok := b.forwards[domain]; !ok {
		b.forwards[domain] = f
	}
	switch {
	case !f.isKept:
		c.add(Route{Domain: domain, Servers: f.servers, Where: where})
	case b.mayLeave && !f.isSite && !domain.IsRoot():
		c.leaveToPods(domain, where)
	default:
		c.keep(domain, where)
	}
}

// readForwardOptions returns the certificate name of the servers, and whether the servers cannot be
// followed, which it reports.
func (c *corefile) readForwardOptions(f *forward, d directive) (tlsName token, isKept bool) {
	usesTLS := slices.ContainsFunc(d.args, func(t token) bool { return strings.HasPrefix(t.text, "tls://") })
	for _, line := range d.lines {
		where := line[0].where()
		switch option := line[0].text; {
		case option == "except":
			isKept = c.readExcept(f, line) || isKept
		case option == "tls_servername" && len(line) == 2:
			tlsName = line[1]
		case option == "tls" && len(line) > 2 && usesTLS:
			c.report(where, "the servers expect a client certificate, which node-dns does not have")
			isKept = true
		case option == "tls" && len(line) == 2 && usesTLS:
			c.report(where, "node-dns verifies the servers with this node's certificate authorities, not with %s", quote(line[1].text))
		case option == "tls":
		case option == "protocol" && len(line) > 1 && line[1].text != "dns":
			c.report(where, "protocol %s: node-dns uses only DNS and DNS over TLS", quote(line[1].text))
			isKept = true
		case option == "protocol", forwardOptions[option]:
		default:
			c.report(where, "unknown option %s, so node-dns does not use these servers", quote(option))
			isKept = true
		}
	}
	return tlsName, isKept
}

// readExcept reads the domains that the servers must not get. It reports whether one of them is
// outside the cluster: node-dns cannot keep such names from the servers.
func (c *corefile) readExcept(f *forward, line []token) (isKept bool) {
	for _, t := range line[1:] {
		domain, _, wrong := parseZone(t)
		if wrong == "" {
			f.except[domain] = true
		}
		if !isKept && (wrong != "" || !c.isCluster(domain)) {
			c.report(line[0].where(), "except %s: node-dns cannot keep its names from these servers, so it does not use them", quote(t.text))
			isKept = true
		}
	}
	return isKept
}

// readServers reads the servers of a forward. If it returns none and reports nothing, the servers
// are the site's.
func (c *corefile) readServers(where string, args []token, tlsName token) []nameserver.Server {
	var texts []string
	for _, t := range args {
		if !isFile(t) {
			texts = append(texts, t.text)
		}
	}
	servers := c.parseAll(where, texts, func(text string) (nameserver.Server, string) {
		return parseTo(token{text: text}, tlsName)
	})
	if len(texts) < len(args) && len(servers) > 0 {
		c.report(where, "the site's servers and others together")
		return nil
	}
	return servers
}

// isFile reports whether CoreDNS reads the servers from a resolv.conf.
func isFile(t token) bool {
	return (strings.HasPrefix(t.text, "/") || strings.HasPrefix(t.text, "./") || strings.HasPrefix(t.text, "../")) && !t.hasEnv()
}

// parseTo reads a server: IP, IP:port, dns://..., or tls://... with the name of its certificate
// behind "%".
func parseTo(t, tlsName token) (server nameserver.Server, wrong string) {
	if t.hasEnv() || tlsName.hasEnv() {
		return nameserver.Server{}, "the environment of CoreDNS is unknown"
	}
	scheme, text, hasScheme := strings.Cut(t.text, "://")
	switch {
	case !hasScheme:
		return parseServer(t.text)
	case scheme == "dns":
		return parseServer(text)
	case scheme != "tls":
		return nameserver.Server{}, "node-dns uses only DNS and DNS over TLS"
	}
	name := tlsName.text
	if before, after, ok := strings.Cut(text, "%"); ok {
		end := strings.IndexAny(after, "]:")
		if end < 0 {
			end = len(after)
		}
		name, text = after[:end], before+after[end:]
	}
	return parseTLS(text, name)
}

// parseServer reads IP or IP:port.
func parseServer(text string) (server nameserver.Server, wrong string) {
	if strings.ContainsAny(text, "#@/") {
		return nameserver.Server{}, notAddress
	}
	server, err := nameserver.Parse(text)
	return checkServer(server, err)
}

// parseTLS reads IP or IP:port of a server with DNS over TLS. Without a name, its certificate must
// have the address.
func parseTLS(text, name string) (server nameserver.Server, wrong string) {
	if strings.ContainsAny(text, "#@/") {
		return nameserver.Server{}, notAddress
	}
	if name != "" {
		text += "#" + name
	}
	server, err := nameserver.Parse("dns+tls://" + text)
	if err != nil && name != "" {
		return nameserver.Server{}, fmt.Sprintf("expected an IP address, and a certificate name other than %s", quote(name))
	}
	return checkServer(server, err)
}

const notAddress = "expected an IP address, with or without a port"

func checkServer(server nameserver.Server, err error) (_ nameserver.Server, wrong string) {
	switch addr := server.Addr.Addr(); {
	case err != nil:
		return nameserver.Server{}, notAddress
	case addr.IsLoopback(), addr.IsUnspecified(), addr.Zone() != "":
		return nameserver.Server{}, "the address means something else in the Pod of CoreDNS than on a node"
	case addr.IsMulticast():
		return nameserver.Server{}, "it is a multicast address"
	}
	return server, ""
}
