package resolve

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/policy"
)

// HostAddrs returns the addresses of the API server's host, from a hosts file or as a client on
// this host would get them. It does not use the system resolver, because that reads
// /etc/resolv.conf, which points to us. Cluster names are known only from the API, so upstreams are
// not queried for them.
func (r *Resolver) HostAddrs(ctx context.Context, hosts, host string) (addrs []netip.Addr, err error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	name, err := dnsname.Parse(host)
	if err != nil {
		return nil, err
	}
	if addrs, err := dnsmasqconf.AddrsIn(hosts, name); len(addrs) > 0 || err != nil {
		return addrs, err
	}
	s := r.Policy()
	err = errors.New("it is a cluster name that is not in /etc/hosts")
	names := slices.DeleteFunc(searched(name, strings.HasSuffix(host, "."), s.Search.Host), s.IsOfCluster)
	for _, name := range names {
		if addrs, err = r.Addrs(ctx, name); len(addrs) > 0 {
			return addrs, nil
		}
	}
	if s.Own == nil {
		return nil, err
	}
	for _, name := range names {
		if addrs := resolveBeneath(ctx, s, name); len(addrs) > 0 {
			return addrs, nil
		}
	}
	return nil, err
}

// Limits for the queries of resolveBeneath.
const (
	maxBeneath     = 4
	beneathTimeout = time.Second
)

// resolveBeneath queries the nameservers that would be used without fromCluster. If a ConfigMap
// names dead servers, the daemon would otherwise never reach the API and never see the corrected
// ConfigMap.
func resolveBeneath(ctx context.Context, s *policy.Policy, name dnsname.Name) (addrs []netip.Addr) {
	var servers []nameserver.Server
	for _, c := range s.Beneath() {
		servers = append(servers, slices.DeleteFunc(slices.Clone(c.Servers), func(server nameserver.Server) bool { return !server.Plain() })...)
	}
	client := dns.Client{Timeout: beneathTimeout}
	for _, server := range servers[:min(len(servers), maxBeneath)] {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
			m, _, err := client.ExchangeContext(ctx, new(dns.Msg).SetQuestion(name.String(), qtype), server.Addr.String())
			if err != nil || m.Rcode != dns.RcodeSuccess {
				continue
			}
			for _, rr := range m.Answer {
				if addr, ok := dnswire.Addr(rr); ok {
					addrs = append(addrs, addr)
				}
			}
		}
		if len(addrs) > 0 {
			break
		}
	}
	return addrs
}

// searched returns the names that resolv.conf(5) derives from a name, with ndots:1.
func searched(name dnsname.Name, isWhole bool, search []dnsname.Name) (names []dnsname.Name) {
	if isWhole {
		return []dnsname.Name{name}
	}
	for _, domain := range search {
		if longer, err := dnsname.Parse(name.String() + domain.String()); err == nil {
			names = append(names, longer)
		}
	}
	if name.Labels() > 1 {
		return append([]dnsname.Name{name}, names...)
	}
	return append(names, name)
}
