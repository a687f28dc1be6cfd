package doctor

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/upstream"
)

// named is all that names nameservers by a file.
type named struct {
	config   nodeconfig.Config
	dnsmasq  dnsmasqconf.Config
	net      netstate.State
	path     string // of the hook's file, as it is shown
	handover []byte // what that says
}

// looping are sentences about the nameservers that are this node, whoever names them: the daemon leaves them out.
func (n named) looping() []string {
	listen := policy.Listeners(n.config, n.dnsmasq, n.net)
	isOurs := func(server nameserver.Server) bool { return server.Plain() && slices.Contains(listen, server.Addr) }
	var found []string
	add := func(where, what string) { found = append(found, where+": "+what+" is this node; ignored (would loop)") }
	keys := func(key string, servers []nameserver.Server) {
		for _, server := range servers {
			if source := n.config.Sources[key]; isOurs(server) {
				add(fmt.Sprintf("%s:%d", source.File, source.Line), server.String())
			}
		}
	}
	keys("upstreams", n.config.Upstreams)
	keys("dnsNameservers", n.config.DNSNameservers)
	for _, route := range n.config.Routes {
		keys("routes", route.Servers)
	}
	for _, server := range n.dnsmasq.Servers {
		if server.Kind == dnsmasqconf.Ask && isOurs(server.Server) {
			add(server.Place.String(), "server="+server.Rule.String())
		}
	}
	number := 0
	for line := range bytes.Lines(n.handover) {
		number++
		set, _ := upstream.ParseDnsmasqConf(line) // a line that is wrong names nobody
		for _, server := range set.Servers {
			if isOurs(server) {
				add(fmt.Sprintf("%s:%d", n.path, number), "server="+server.Dnsmasq())
			}
		}
	}
	return found
}
