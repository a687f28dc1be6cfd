package migrate

import (
	"fmt"
	"regexp"
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
			var p part
			if h.Files[oldHook].Exists {
				p.before = append(p.before, removeStep(oldHook, "it would start dnsmasq again at the next event of NetworkManager"))
			}
			if runsDnsmasq(h) {
				its := giveUpDnsmasq(h)
				p.port, p.refused, p.notes = its.port, its.refused, its.notes
			}
			p.notes = append(p.notes, lostUpstreams(h)...)
			switch snippet := h.Files[oldSnippet]; {
			case setsOnly(snippet, dnsNone):
				p.after = append(p.after, releaseStep(oldSnippet, "dns=none"))
			case snippet.Exists:
				p.notes = append(p.notes, oldSnippet+" has more in it than dns=none and stays: NetworkManager leaves /etc/resolv.conf to whom it says")
			}
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
	if hook {
		f.Evidence = append(f.Evidence, oldHook+" is NetworkManager's hook")
	}
	if resolvconf.Parse(h.State.ResolvConf.Data).HasLine(hostdns.LegacyWatermark) {
		f.Evidence = append(f.Evidence, "/etc/resolv.conf has its line: "+strings.Join(nameservers(h.State.ResolvConf.Data), " "))
	}
	if setsOnly(h.Files[oldSnippet], dnsNone) {
		f.Evidence = append(f.Evidence, oldSnippet+" keeps NetworkManager from writing /etc/resolv.conf (dns=none)")
	}
	if runsDnsmasq(h) {
		f.Evidence = append(f.Evidence, dnsmasqEvidence(h)...)
	}
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

var dnsNone = regexp.MustCompile(`^\s*dns\s*=\s*none\s*$`)
