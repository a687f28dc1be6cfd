package policy

import (
	"fmt"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// addFiles adds the switches of dnsmasq's files, and reports options without effect.
func (p *Policy) addFiles(in Inputs) {
	p.Options = in.Bus.Options.With(in.Dnsmasq.Options())
	p.Notes = append(p.Notes, in.Dnsmasq.Costs()...)
	var aside []string
	for _, a := range in.Dnsmasq.Aside {
		aside = append(aside, fmt.Sprintf("%s (%s)", a.Option, a.Place))
	}
	if len(aside) > 0 {
		p.note("dnsmasq options that node-dns does not follow: %s; node-dns check-config shows the reasons", journal.Few(aside, ", "))
	}
}

// fileClaims returns the routes of server=, local=, rev-server=, address=/domain/ and resolv-file.
// They do not get the cluster's names if there is a source for those.
func (p *Policy) fileClaims(in Inputs) []nameserver.Claim {
	hasCluster := p.API != (API{}) || len(p.ClusterDNS) > 0
	var rules, plain, barred []dnsmasqconf.Rule
	for _, server := range in.Dnsmasq.Servers {
		switch {
		case server.Plain:
			plain = append(plain, server.Rule)
		case hasCluster && p.IsOfCluster(server.Domain):
			barred = append(barred, server.Rule)
			p.note("ignoring %s (%s): it is in the cluster's zone, which another source answers", server.Rule, server.Place)
		default:
			rules = append(rules, server.Rule)
		}
	}
	for _, server := range in.ResolvFiles {
		rules = append(rules, dnsmasqconf.Rule{Domain: dnsname.Root(), Server: server})
	}
	var claims []nameserver.Claim
	add := func(rules []dnsmasqconf.Rule, change func(*nameserver.Claim)) {
		for _, route := range dnsmasqconf.Routes(rules) {
			c := ruleClaim(nameserver.Dnsmasq, "", route)
			change(&c)
			// For all names the files can only name servers; "//#" has no effect.
			if !c.Domain.IsRoot() || c.Kind == nameserver.Ask || c.Plain && c.Kind == nameserver.Local {
				c.Detail = filePlace(in.Dnsmasq, c.Domain, c.Plain)
				claims = append(claims, c)
			}
		}
	}
	add(rules, func(*nameserver.Claim) {})
	add(plain, func(c *nameserver.Claim) { c.Plain = true })
	add(barred, func(c *nameserver.Claim) { c.Barred = "it is in the cluster's zone, which another source answers" })
	return claims
}

// filePlace returns the first place in the files that names a domain.
func filePlace(files dnsmasqconf.Config, domain dnsname.Name, plain bool) string {
	for _, server := range files.Servers {
		if server.Domain == domain && server.Plain == plain {
			return server.Place.String()
		}
	}
	return "resolv-file " + files.Sources["resolv-file"].String()
}
