package policy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/kube/clusterdns"
)

// addLocal adds the local data. It runs after settle, because hosts of the cluster's DNS yield to
// routes of stronger sources.
func (p *Policy) addLocal(in Inputs) {
	now := LocalData{own: p.Own}
	if p.Own != nil {
		now.pinned = p.pinned(nameserver.FromCluster)
	}
	if before := in.Known; before != nil && before.own == now.own && slices.Equal(before.pinned, now.pinned) {
		p.Known = before
	} else {
		now.Said = in.Dnsmasq
		if p.Own != nil {
			now.Said.Hosts = slices.Concat(in.Dnsmasq.Hosts, ownHosts(p.Own.Hosts, NewLocalRecords(in.Dnsmasq, p.Hostname), now.pinned))
		}
		now.data = NewLocalRecords(now.Said, p.Hostname)
		p.Known = &now
	}
	p.Local = p.Known.data
	for _, apex := range p.Apexes {
		if p.Local.Knows(apex) {
			p.note("dnsmasq's files, or hosts of the cluster's DNS, override names in the cluster's zone %s", apex)
		}
	}
}

// pinned returns the domains with a route of a stronger source, except the root.
func (p *Policy) pinned(than nameserver.Source) (domains []dnsname.Name) {
	for _, r := range p.Won {
		if r.Source < than && !r.Domain.IsRoot() && !r.Plain {
			domains = append(domains, r.Domain)
		}
	}
	return domains
}

// NameOf returns the host's name, or the zero Name if it is not a valid DNS name.
func NameOf(hostname string) dnsname.Name {
	name, err := dnsname.Parse(hostname)
	if err != nil || name.IsRoot() {
		return dnsname.Name{}
	}
	return name
}

// ownHosts returns the hosts of the cluster's own DNS, except names that have a record in dnsmasq's
// files or are in a pinned domain.
func ownHosts(all []clusterdns.Host, files *LocalRecords, pinned []dnsname.Name) (hosts []dnsmasqconf.Host) {
	isAdmins := func(name dnsname.Name) bool { return files.Has(name) || slices.ContainsFunc(pinned, name.Within) }
	for _, h := range all {
		if names := slices.DeleteFunc(slices.Clone(h.Names), isAdmins); len(names) > 0 {
			hosts = append(hosts, dnsmasqconf.Host{
				Names: names, Addrs: []netip.Addr{h.Addr}, TTL: h.TTL, NoReverse: h.NoReverse, Whole: true, Place: placeOf(h.Where),
			})
		}
	}
	return hosts
}

// placeOf parses "ConfigMap kube-system/coredns Corefile:12".
func placeOf(where string) dnsmasqconf.Place {
	i := strings.LastIndexByte(where, ':')
	line, err := strconv.Atoi(where[i+1:])
	if err != nil {
		return dnsmasqconf.Place{File: where}
	}
	return dnsmasqconf.Place{File: where[:i], Line: line}
}
