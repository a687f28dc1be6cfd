package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// checkUpstreams judges each by what it answered to us, whatever the daemon thinks of it. One that is silent is a failure where
// no other serves its domain.
func checkUpstreams(s Snapshot) []Finding {
	if len(s.Upstreams) == 0 {
		return []Finding{fail("no upstream nameserver is known: names outside the cluster do not resolve",
			"give NetworkManager's connection a nameserver, or set upstreams: in /etc/node-dns/node-dns.yaml; origin-dns-dispatcher plan says what was looked at")}
	}
	var found []Finding
	for _, p := range s.Upstreams {
		found = append(found, p.judge(p.replaceable(s.Upstreams)))
	}
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

// losingLarge are the servers of which the daemon has seen that large answers do not arrive over
// UDP.
func losingLarge(s Snapshot) (found []Finding) {
	if s.Status == nil {
		return nil
	}
	told := map[string]bool{}
	for _, route := range s.Status.Routes {
		for _, server := range route.Servers {
			if server.UDPSize > 0 && !told[server.Address] {
				told[server.Address] = true
				found = append(found, warn(fmt.Sprintf("upstream %s: answers of more than %d octets get lost over UDP, and take TCP", server.Address, server.UDPSize),
					"let datagrams of 1232 octets and fragments pass every firewall on the way, or lower the MTU of the tunnel that drops them"))
			}
		}
	}
	return found
}

// replaceable reports whether another one answers for each of its domains.
func (p Probe) replaceable(all []Probe) bool {
	return !slices.ContainsFunc(p.Domains, func(domain string) bool {
		return !slices.ContainsFunc(all, func(o Probe) bool { return slices.Contains(o.Domains, domain) && o.Server != p.Server && o.answers() })
	})
}

// answers reports whether it can be asked at all.
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

func (p Probe) judge(others bool) Finding {
	if !p.answers() {
		err, over := p.EDNS.Err, "UDP"
		if p.TLS {
			err, over = p.TCP.Err, "TLS"
		}
		what := fmt.Sprintf("%s does not answer over %s: %v", p.name(), over, err)
		if !p.TLS && p.TCP.Err == nil {
			what += "; over TCP it does: a firewall may drop UDP"
		}
		if others {
			return warn(what, "others answer in its place; see to it, or take it out of what names it: node-dns servers")
		}
		return fail(what, "nothing else is asked for these names: see to it, to the route there, and to a firewall between; node-dns servers says who names it")
	}
	if p.TLS {
		return fine("%s answers over TLS (%s)", p.name(), p.TCP.words())[0]
	}
	var odd []string
	best := p.EDNS
	if p.EDNS.Err != nil || p.EDNS.Rcode == "FORMERR" || p.EDNS.Rcode == "NOTIMP" { // RFC 6891 section 7
		best = p.UDP
	}
	if p.EDNS.Err != nil {
		odd = append(odd, fmt.Sprintf("it does not answer what has EDNS (RFC 6891): %v", p.EDNS.Err))
	} else if !p.EDNS.EDNS {
		odd = append(odd, "it does not know EDNS (RFC 6891): answers of more than 512 octets take TCP")
	}
	if p.TCP.Err != nil {
		odd = append(odd, fmt.Sprintf("it does not answer over TCP: %v: answers that do not fit a datagram are lost", p.TCP.Err))
	}
	if p.Large.Err != nil && p.EDNS.Err == nil {
		odd = append(odd, fmt.Sprintf("a large answer does not come over UDP: %v: something on the way drops fragments, or datagrams of that size", p.Large.Err))
	}
	if best.Rcode == "REFUSED" {
		return warn(p.name()+" answers, and refuses what it is asked (REFUSED)", "it may not serve this node's network: see to what it allows, or take it out of what names it: node-dns servers", odd...)
	}
	if len(odd) > 0 {
		return warn(p.name()+" answers over UDP ("+best.words()+"), but not all", "TCP and UDP port 53 to it have to pass every firewall on the way, datagrams of 1232 octets too", odd...)
	}
	return fine("%s answers over UDP (%s), TCP and with EDNS 1232%s", p.name(), best.words(), p.Large.largeWords())[0]
}

func (a Answer) words() string {
	text := a.Took.Round(100 * time.Microsecond).String()
	if a.Rcode != "NOERROR" {
		text = a.Rcode + ", " + text
	}
	return text
}

// largeWords is what came of a question whose answer is large, where it is.
func (a Answer) largeWords() string {
	switch {
	case a.Truncated:
		return "; what does not fit it truncates"
	case a.Size > 512:
		return fmt.Sprintf("; a large answer comes whole (%d octets)", a.Size)
	}
	return ""
}

// checkLoop takes the result of the daemon's own probe, which asks each upstream for a name that nobody can guess, and sees
// whether the question comes in again.
func checkLoop(s Snapshot) []Finding {
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
	if back = slices.Compact(back); len(back) > 0 {
		return []Finding{fail(strings.Join(back, ", ")+": what node-dns asks there comes back to this node; it is left out", "that nameserver forwards to this node: have it forward to the site's, or take it out of what names it: node-dns servers")}
	}
	asked := map[string]bool{}
	for _, route := range s.Status.Routes {
		for _, server := range route.Servers {
			asked[server.Address] = true
		}
	}
	return fine("loop probe: no question came back from %s", count(len(asked), "server"))
}
