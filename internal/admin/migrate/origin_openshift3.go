package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/upstream"
)

// What openshift-ansible leaves on a node (3.6 to 3.11).
const (
	oldHook    = "/etc/NetworkManager/dispatcher.d/99-origin-dns.sh"
	oldSnippet = "/etc/NetworkManager/conf.d/99-origin.conf"
	oldBase    = "/etc/dnsmasq.d/origin-dns.conf"
)

// openshift3 is NetworkManager's hook 99-origin-dns.sh with dnsmasq, on every node of OpenShift 3.
func openshift3() origin {
	return origin{
		name:  "openshift3",
		files: []string{oldHook, oldSnippet, oldBase},
		units: []string{dnsmasqUnit},
		find:  findOpenshift3,
		steps: func(h Host) part {
			p := giveUpDnsmasq(h)
			if h.Files[oldHook].Exists {
				p.before = append(p.before, removeStep(oldHook, "it would start dnsmasq again at the next event of NetworkManager"))
			}
			p.notes = append(p.notes, lostUpstreams(h)...)
			p.release(h, oldSnippet, dnsNone)
			return p
		},
	}
}

func findOpenshift3(h Host) []Finding {
	hook, snippet := h.Files[oldHook].Exists, h.Files[oldSnippet].Exists
	if !hook && !(snippet && runsDnsmasq(h)) {
		return nil
	}
	f := Finding{Origin: "openshift3", What: "99-origin-dns.sh with dnsmasq (OpenShift 3)"}
	f.say(hook, "%s is NetworkManager's hook", oldHook)
	resolv := h.State.ResolvConf.Data
	f.say(resolvconf.Parse(resolv).HasLine(hostdns.LegacyWatermark), "/etc/resolv.conf has its line: %s", strings.Join(nameservers(resolv), " "))
	f.say(setsOnly(h.Files[oldSnippet], dnsNone), "%s keeps NetworkManager from writing /etc/resolv.conf (dns=none)", oldSnippet)
	f.Evidence = append(f.Evidence, dnsmasqEvidence(h)...)
	return []Finding{f}
}

// lostUpstreams says whom dnsmasq asks and node-dns would not: the script never asked again once it had a list, and an admin
// may have written it by hand.
func lostUpstreams(h Host) []string {
	captured, _ := upstream.ParseDnsmasqConf(h.State.Upstreams.Data) // lines that are wrong dnsmasq does not read either
	if len(h.State.Config.Upstreams) > 0 {
		return nil // an admin has decided
	}
	var lost []string
	for _, server := range captured.Servers {
		if !slices.Contains(h.Plan.Selection.Set.Servers, server) {
			lost = append(lost, server.String())
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("dnsmasq asks %s, whom %s does not name any more: `upstreams` in /etc/node-dns/node-dns.yaml keeps them",
		strings.Join(lost, ", "), h.Plan.Selection.Origin)}
}

func nameservers(text []byte) []string {
	var all []string
	for _, addr := range resolvconf.Parse(text).Nameservers() {
		all = append(all, addr.String())
	}
	return all
}
