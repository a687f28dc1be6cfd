package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// checkUpstreams checks each nameserver by its answers to us, whatever the daemon reports. A silent
// nameserver is a failure if no other one serves its domain.
func checkUpstreams(s Snapshot) []Finding {
	switch {
	case len(s.Upstreams) > 0:
	case len(s.loopingServers()) > 0: // checkLoop reports them
		return nil
	default:
		return []Finding{fail("no upstream nameserver is known: names outside the cluster do not resolve",
			"give NetworkManager's connection a nameserver, or set upstreams: in /etc/node-dns/node-dns.yaml; origin-dns-dispatcher plan shows the sources that were checked")}
	}
	found := s.together(s.Upstreams)
	found = append(found, losingLarge(s)...)
	if lacking := s.Host.Plan.Lacking; lacking != "" {
		fix := "give NetworkManager's connection a nameserver that answers (nmcli connection modify NAME ipv4.dns ADDRESS)"
		if strings.HasPrefix(lacking, "/etc/resolv.conf ") {
			fix = "write an /etc/resolv.conf with a nameserver that answers"
		}
		found = append(found, warn(lacking, fix+", or set upstreams: in /etc/node-dns/node-dns.yaml"))
	}
	return found
}

// losingLarge returns a finding for each server whose large answers do not arrive over UDP, as the
// daemon noticed.
func losingLarge(s Snapshot) (found []Finding) {
	if s.Status == nil {
		return nil
	}
	told := map[string]bool{}
	for _, route := range s.Status.Routes {
		for _, server := range route.Servers {
			if server.UDPSize > 0 && !told[server.Address] {
				told[server.Address] = true
				found = append(found, warn(fmt.Sprintf("upstream %s: answers of more than %d bytes are lost over UDP and need TCP", server.Address, server.UDPSize),
					"allow datagrams of 1232 bytes and fragments in every firewall on the path, or lower the MTU of the tunnel that drops them"))
			}
		}
	}
	return found
}

// replaceable reports whether another nameserver answers for each of its domains.
func (p Probe) replaceable(all []Probe) bool {
	return !slices.ContainsFunc(p.Domains, func(domain string) bool {
		return !slices.ContainsFunc(all, func(o Probe) bool { return slices.Contains(o.Domains, domain) && o.Server != p.Server && o.answers() })
	})
}

// answers reports whether the nameserver can be queried at all.
func (p Probe) answers() bool {
	if p.TLS {
		return p.TCP.Err == nil
	}
	return p.UDP.Err == nil || p.EDNS.Err == nil
}

func (p Probe) name() string {
	const most = 3
	switch n := len(p.Domains); {
	case slices.Equal(p.Domains, []string{"."}):
		return "upstream " + p.Server
	case n > most:
		return fmt.Sprintf("upstream %s (for %s and %d more)", p.Server, strings.Join(p.Domains[:most], ", "), n-most)
	}
	return fmt.Sprintf("upstream %s (for %s)", p.Server, strings.Join(p.Domains, ", "))
}

// directs returns the answers of a nameserver by name and type.
func (s Snapshot) directs(server string) map[string]Direct {
	all := map[string]Direct{}
	for _, n := range s.Names {
		for _, d := range n.Direct {
			if d.Server == server {
				all[n.Name+" "+n.Type] = d
			}
		}
	}
	return all
}

// isBogus reports whether a name fails DNSSEC validation at the nameserver and it answers no name.
func (s Snapshot) isBogus(p Probe) bool {
	bogus := 0
	for _, d := range s.directs(p.Server) {
		switch {
		case d.isBogus():
			bogus++
		case isAnswer(d.best().result()):
			return false
		}
	}
	return bogus > 0
}

func (d Direct) isBogus() bool { return d.best().Rcode == "SERVFAIL" && isAnswer(d.CD.result()) }

// isFailing reports whether the nameserver answers SERVFAIL for its own domain and for each name
// for which it was queried directly. Names that fail everywhere say nothing about it.
func (s Snapshot) isFailing(p Probe) bool {
	all, own := s.directs(p.Server), p.EDNS
	if p.TLS {
		own = p.TCP
	}
	if own.Rcode != "SERVFAIL" {
		return false
	}
	for _, d := range all {
		if d.best().Rcode != "SERVFAIL" {
			return false
		}
	}
	return len(all) > 0
}

// namesOf returns the names for which the nameserver was queried directly.
func (s Snapshot) namesOf(p Probe) []string {
	return slices.Sorted(maps.Keys(s.directs(p.Server)))
}

// allBad reports whether no nameserver of its domains resolves names.
func (s Snapshot) allBad(p Probe) bool {
	return !slices.ContainsFunc(s.Upstreams, func(o Probe) bool {
		shares := slices.ContainsFunc(p.Domains, func(domain string) bool { return slices.Contains(o.Domains, domain) })
		return shares && o.answers() && !s.isBogus(o) && !s.isFailing(o)
	})
}

// bogusNames returns the names that fail validation, with the nameserver's own reason.
func (s Snapshot) bogusNames(p Probe) string {
	var lines []string
	for name, d := range s.directs(p.Server) {
		if d.isBogus() {
			line := name
			if text := reasons(d.best().EDE); text != "" {
				line += ": " + text
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// resolves reports whether the daemon has an answer for a name and type.
func (s Snapshot) resolves(asked string) bool {
	return slices.ContainsFunc(s.Names, func(n Name) bool { return n.Name+" "+n.Type == asked && n.result() == "NOERROR" })
}

// lostAnswer returns a name whose answer does not arrive over UDP, and its size over TCP. The name
// is empty if there is none.
func (s Snapshot) lostAnswer(p Probe) (name string, size int) {
	for asked, d := range s.directs(p.Server) {
		if errors.Is(d.UDP.Err, errSilent) && d.TCP.Err == nil && d.TCP.Size > dns.MinMsgSize && (name == "" || asked < name) {
			name, size = asked, d.TCP.Size
		}
	}
	return name, size
}

// checkLoop reports the result of the daemon's own probe, which queries each upstream for an
// unguessable name and waits for that query to come back.
func checkLoop(s Snapshot) []Finding {
	if s.Status == nil {
		return nil
	}
	if back := s.loopingServers(); len(back) > 0 {
		return []Finding{fail(strings.Join(back, ", ")+": queries sent there come back to this node, so it is ignored", "that nameserver forwards to this node: make it forward to the site's nameservers, or remove it from its source (see node-dns servers)")}
	}
	asked := map[string]bool{}
	for _, route := range s.Status.Routes {
		for _, server := range route.Servers {
			asked[server.Address] = true
		}
	}
	return fine("loop probe: no query came back from %s", count(len(asked), "server"))
}

// loopingServers returns the nameservers that are ignored because they send queries back to this
// node.
func (s Snapshot) loopingServers() []string {
	if s.Status == nil {
		return nil
	}
	var back []string
	for _, r := range s.Status.Refused {
		if r.Why == nameserver.ComesBack {
			back = append(back, r.Server)
		}
	}
	slices.Sort(back)
	return slices.Compact(back)
}
