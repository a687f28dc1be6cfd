package clusterdns

import (
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// zoned are plugins without an equivalent that answer for zones of their own, with the position of
// the first zone among their arguments.
var zoned = map[string]int{"etcd": 0, "file": 1, "k8s_external": 0, "secondary": 0, "template": 2}

// selective are the plugins whose answers depend on the client. The DNS pods would take the node
// for the client.
var selective = plugins("acl geoip view")

func isSelective(b block) bool {
	return slices.ContainsFunc(b.directives, func(d directive) bool { return selective[d.name.text] })
}

// needsPods reports whether only the DNS pods can resolve the names of a server block, because it
// has a plugin without an equivalent.
func (c *corefile) needsPods(b *server) bool {
	isOther := func(d directive) bool { return d.name.text != "hosts" && !isForward(d) && !neutral[d.name.text] }
	isOurs := func(z zoneKey) bool { return z.name.IsRoot() || c.isCluster(z.name) }
	return b.mayLeave && slices.ContainsFunc(b.directives, isOther) && !slices.ContainsFunc(b.zones, isOurs)
}

func (c *corefile) leaveToPods(domain dnsname.Name, where string) {
	if first, ok := c.index[domain]; !ok || !c.routes[first].Pods {
		c.add(Route{Domain: domain, Pods: true, Where: where})
	}
}

// leavePlugin leaves the domains of a plugin without an equivalent to the DNS pods. It returns
// false if it does not know them.
func (c *corefile) leavePlugin(b *server, d directive) bool {
	if !b.mayLeave {
		return false
	}
	where := d.name.where()
	var domains []dnsname.Name
	for _, t := range c.domainsOf(d) {
		zone, _, wrong := parseZone(t)
		if wrong != "" || zone.IsRoot() || c.isCluster(zone) {
			return false
		}
		domains = append(domains, c.within(b, zone, where)...)
	}
	for _, domain := range domains {
		if c.isServed(b, domain, where) {
			b.answered[domain] = where
			c.leaveToPods(domain, where)
		}
	}
	return len(domains) > 0
}

// domainsOf returns the domains that a plugin is for: the zones of zoned, and names that rewrite
// turns into names of the cluster. It returns none if it does not know them, or if the next plugin
// may answer their names.
func (c *corefile) domainsOf(d directive) []token {
	if first, ok := zoned[d.name.text]; ok {
		fallsThrough := func(line []token) bool { return line[0].text == "fallthrough" }
		if slices.ContainsFunc(d.lines, fallsThrough) {
			return nil
		}
		return d.args[min(first, len(d.args)):]
	}
	if d.name.text != "rewrite" {
		return nil
	}
	words := d.args
	if len(words) > 0 && (words[0].text == "stop" || words[0].text == "continue") {
		words = words[1:]
	}
	if len(words) == 0 && len(d.lines) > 0 {
		words = d.lines[0]
	}
	if len(words) < 3 || words[0].text != "name" {
		return nil
	}
	switch words = words[1:]; words[0].text {
	case "prefix", "substring", "regex":
		return nil
	case "exact", "suffix":
		words = words[1:]
	}
	if len(words) < 2 {
		return nil
	}
	from, to := words[0], words[1]
	from.text, to.text = strings.TrimPrefix(from.text, "."), strings.TrimPrefix(to.text, ".")
	if target, _, wrong := parseZone(to); wrong != "" || !c.isCluster(target) {
		return nil
	}
	return []token{from}
}
