package doctor

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/migrate"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/netstate"
)

// checkInterception checks that pods' queries come here, if the configuration wants that. A query
// that does not is answered by the cluster's DNS pods.
func checkInterception(s Snapshot) []Finding {
	if s.Status == nil || s.Status.Interception == nil {
		return nil
	}
	i := s.Status.Interception
	if why := i.Missing(); why != "" {
		return []Finding{warn("pods' queries to "+i.Subject()+" do not come to this node: "+why, s.interceptionFix(""))}
	}
	var found []Finding
	for _, a := range i.Addresses {
		if a.IsStandby() {
			found = append(found, s.standby(a.Address))
		}
	}
	for _, a := range i.Off() {
		found = append(found, warn("pods' queries to "+a.Address+" do not come to this node: "+a.Why, s.interceptionFix(a.Why), s.interceptionDetails(a.Why)...))
	}
	found = append(found, s.translatedPods()...)
	if !i.Owned && !i.Cilium {
		found = append(found, warn("this kernel keeps the interception's rules if node-dns-intercept is killed, until systemd removes them",
			"Linux 5.12 or later removes them itself"))
	}
	return orFine(found, "pods' queries to %s come to this node", i.Subject())
}

// translatedPods returns a Finding for each intercepted address at which another nameserver answers
// pods: a network between them and this host's rules translates it. The helper cannot see that.
func (s Snapshot) translatedPods() (found []Finding) {
	var seen []netip.AddrPort
	for _, p := range s.Pods {
		if !p.IsOther || slices.Contains(seen, p.Server) {
			continue
		}
		seen = append(seen, p.Server)
		fix := "if the cluster's network replaces kube-proxy, remove intercept from " + nodeDNSYAML + ". " + migrate.InsteadOf(netstate.Replacement{})
		if replacement, isReplaced := s.Host.State.Net.Replacement(); isReplaced {
			fix = "remove intercept from " + nodeDNSYAML + ". " + migrate.InsteadOf(replacement)
		}
		found = append(found, warn("pods' queries to "+p.Server.Addr().String()+" do not come to this node, but this host's do: "+nameserver.AnotherAnswers+" pods", fix, p.origin()))
	}
	return found
}

// interceptionFix returns what to do about the reason why queries do not come here.
func (s Snapshot) interceptionFix(why string) string {
	cluster := s.Status.Cluster
	isKnown := cluster.Resolver != nil && cluster.Resolver.Error == ""
	switch {
	case s.isRedirectedElsewhere(why):
		return "set localRedirectPolicies.enabled (formerly localRedirectPolicy) of Cilium's chart, and check the policy: " +
			"kubectl get ciliumlocalredirectpolicies -A"
	case s.Status.Interception.Cilium && isKnown && len(s.Status.Interception.Wanted) == 0:
		return "set cilium.service of the chart to the name of the cluster's DNS Service"
	case s.Status.Interception.Cilium && isKnown:
		return "wait a minute, then run node-dns doctor again"
	case s.isTranslated(why):
		replacement, _ := s.Host.State.Net.Replacement() // found
		return replacement.Name + " translates the addresses of Services, so that the queries cannot be intercepted: remove intercept from " + nodeDNSYAML +
			". " + migrate.InsteadOf(replacement) + " (docs/howto/intercept.md)"
	case strings.Contains(why, "packet filter") && strings.Contains(why, "responses"):
		return "let packets from port 53 of this host out, which connection tracking does not know (see nft list ruleset), then systemctl restart node-dns-intercept.service"
	case strings.Contains(why, "packet filter"):
		return "let pods query this host (see the check input-filter, and nft list ruleset), then systemctl restart node-dns-intercept.service"
	case strings.Contains(why, "of this host has it"):
		return "remove the address from intercept in " + nodeDNSYAML + ": queries to it arrive without interception"
	case !isKnown:
		return "node-dns needs the Kubernetes API first: see the check cluster"
	}
	return "systemctl restart node-dns-intercept.service, then journalctl -u node-dns-intercept"
}

// isTranslated reports whether the cluster's network translates the address of a Service before any
// rule of this host sees a packet, as Cilium in the socket. why is the reason why queries to it do
// not come here.
func (s Snapshot) isTranslated(why string) bool {
	if s.Status.Interception.Cilium {
		return false // as intended
	}
	replacement, found := s.Host.State.Net.Replacement()
	return found && (replacement.Always || strings.Contains(why, nameserver.AnotherAnswers))
}

// isRedirectedElsewhere reports whether Cilium should redirect queries to this pod, and does not.
func (s Snapshot) isRedirectedElsewhere(why string) bool {
	return s.Status.Interception.Cilium && strings.Contains(why, nameserver.AnotherAnswers)
}

func (s Snapshot) interceptionDetails(why string) []string {
	replacement, _ := s.Host.State.Net.Replacement()
	if s.isRedirectedElsewhere(why) || s.isTranslated(why) && replacement.Name == netstate.Cilium {
		return append([]string{"the chart creates this policy:"}, strings.Split(redirectPolicy, "\n")...)
	}
	return nil
}

// standby returns the Finding for an address that the link of NodeLocal DNSCache has.
func (s Snapshot) standby(addr string) Finding {
	at, _ := netip.ParseAddr(addr) // it is one of netip's own
	answers := func(h migrate.Holder) bool { return h.Covers(netip.AddrPortFrom(at, nameserver.Port)) }
	if s.Host.Root && !slices.ContainsFunc(s.Host.Holders, answers) {
		return warn("no program answers at "+addr+", which the link nodelocaldns has: NodeLocal DNSCache ended without removing it",
			"node-dns migrate --undo, then node-dns migrate --apply, removes the link's addresses, unless the kubelet starts the cache again")
	}
	return warn("NodeLocal DNSCache answers pods' queries to "+addr+" until it leaves this node", "node-dns migrate prints how")
}

// redirectPolicy is the CiliumLocalRedirectPolicy of the chart, with its default values.
const redirectPolicy = `apiVersion: cilium.io/v2
kind: CiliumLocalRedirectPolicy
metadata: {name: node-dns, namespace: kube-system}
spec:
  redirectFrontend:
    serviceMatcher:
      serviceName: kube-dns
      namespace: kube-system
      toPorts: [{name: dns, port: "53", protocol: UDP}, {name: dns-tcp, port: "53", protocol: TCP}]
  redirectBackend:
    localEndpointSelector:
      matchLabels: {app.kubernetes.io/name: node-dns, app.kubernetes.io/instance: node-dns}
    toPorts: [{name: dns, port: "53", protocol: UDP}, {name: dns-tcp, port: "53", protocol: TCP}]`
