package migrate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/procfs"
)

const (
	ourKubeconfig = "/etc/node-dns/kubeconfig"
	interceptUnit = "node-dns-intercept.service"
	interceptLink = "node-dns"   // of node-dns-intercept
	ipvsLink      = "kube-ipvs0" // of kube-proxy in mode ipvs
)

// interception makes pods' queries to the cluster's DNS Service come to node-dns if an admin
// requests it. A node with NodeLocal DNSCache gets that anyway: see nodelocal.
func interception() origin {
	return origin{
		name:  "intercept",
		files: []string{ourKubeconfig},
		find: func(h Host) []Finding {
			if !h.Intercept || len(findNodelocal(h)) > 0 {
				return nil
			}
			f := Finding{Origin: "intercept", What: "pods that ask the cluster's DNS Service"}
			given := h.State.Config.DNSIPs
			f.say(len(given) > 0, "the kubelet gives pods %s%s", words(given), h.saidIn("clusterDNS"))
			return []Finding{f}
		},
		steps: func(h Host) part {
			why := h.notInterceptable()
			if given := h.State.Config.DNSIPs; len(given) > 0 && !slices.ContainsFunc(given, func(addr netip.Addr) bool { return !h.isOwn(addr) }) {
				why = append(why, "there is nothing to intercept: the kubelet gives pods this node's address"+h.saidIn("clusterDNS"))
			}
			step, failed := h.interceptStep()
			return part{before: step, refused: append(why, failed...)}
		},
	}
}

// isOwn reports whether pods reach this node at addr without interception.
func (h Host) isOwn(addr netip.Addr) bool {
	return addr.IsUnspecified() || h.State.Net.IsLocal(addr) && !h.State.Net.IsService(addr, nil)
}

// watchesAPI reports whether node-dns would answer cluster names from the Kubernetes API.
func (h Host) watchesAPI() bool {
	c := h.State.Config
	return !c.Resolver.Off && (c.Resolver.Kubeconfig != "" || c.MasterKubeConfig != "" || h.Files[ourKubeconfig].Exists)
}

// notInterceptable returns the reasons why pods' queries cannot be intercepted on this node.
func (h Host) notInterceptable() []string {
	var why []string
	if !h.watchesAPI() {
		why = append(why, fmt.Sprintf("interception requires a Kubernetes API: provide a kubeconfig (%s, or kubeconfig: in %s)", ourKubeconfig, ourConfig))
	}
	if len(h.Rehearsal.Missing) > 0 {
		why = append(why, "the Kubernetes API denies "+strings.Join(h.Rehearsal.Missing, ", ")+": kubectl apply -f contrib/cluster-role.yaml")
	}
	for _, addr := range h.untranslatable() {
		why = append(why, fmt.Sprintf("node-dns would answer at no address of this node of the family of %v: add one to listen in %s", addr, ourConfig))
	}
	switch r, found := h.State.Net.Replacement(); {
	case found && r.Always:
		why = append(why, fmt.Sprintf("%s translates the addresses of Services before this host's rules see the packets of pods: there is the link %s. %s", r.Name, r.Link, InsteadOf(r)))
	case found && h.KubeProxy == "":
		why = append(why, fmt.Sprintf("%s replaces kube-proxy, so that queries to Services cannot be intercepted: there is the link %s, and no kube-proxy "+
			"(no process, no link %s, no chain KUBE-SERVICES, no nf_tables table kube-proxy). %s", r.Name, r.Link, ipvsLink, InsteadOf(r)))
	}
	return why
}

// untranslatable returns the addresses of NodeLocal DNSCache to which queries cannot be translated,
// because node-dns listens at no address of the family.
func (h Host) untranslatable() (all []netip.Addr) {
	if len(findNodelocal(h)) == 0 {
		return nil
	}
	addrs := append(h.nodelocalAddrs(), h.cacheAddrs()...)
	h.State.Config.Intercept = nodeconfig.Intercept{ClusterDNS: true, Addrs: addrs}
	listen := h.listen()
	for _, addr := range addrs {
		isSameFamily := func(at netip.AddrPort) bool {
			return at.Addr().Is4() == addr.Is4() && !slices.Contains(addrs, at.Addr()) && intercept.Check(at.Addr()) == nil
		}
		if !slices.ContainsFunc(listen, isSameFamily) && !slices.Contains(all, addr) {
			all = append(all, addr)
		}
	}
	return all
}

// InsteadOf says how pods' queries come to a node whose network replaces kube-proxy.
func InsteadOf(r netstate.Replacement) string {
	text := "Give pods this node's address instead (clusterDNS of the kubelet)"
	if r.Name == netstate.Cilium {
		text += ", or install charts/node-dns with --set cilium.enabled=true"
	}
	return text
}

func (h Host) hasLink(name string) bool {
	return slices.ContainsFunc(h.State.Net.Addrs, func(a netstate.Addr) bool { return a.Interface == name })
}

// lookAtKubeProxy returns a trace of kube-proxy on this host, or "". It looks for one only if that
// decides whether another network replaces kube-proxy. Programs that are not installed show
// nothing.
func (h Host) lookAtKubeProxy(ctx context.Context) string {
	if r, found := h.State.Net.Replacement(); !found || r.Always {
		return ""
	}
	if h.hasLink(ipvsLink) {
		return "the link " + ipvsLink
	}
	for _, p := range procfs.Named("/", "kube-proxy") {
		if shares, known := p.SharesNetwork(); shares || !known {
			return fmt.Sprintf("kube-proxy (process %d)", p.PID)
		}
	}
	for _, trace := range []struct {
		argv []string
		name string
	}{
		{[]string{"iptables-save", "-t", "nat"}, "KUBE-SERVICES"},
		{[]string{"ip6tables-save", "-t", "nat"}, "KUBE-SERVICES"},
		{[]string{"nft", "list", "tables"}, "kube-proxy"},
	} {
		if out, err := command(ctx, trace.argv...); err == nil && strings.Contains(out, trace.name) {
			return trace.name + " (" + strings.Join(trace.argv, " ") + ")"
		}
	}
	return ""
}

// intercepting returns the host with the interception that the plan adds to node-dns.yaml.
func (h Host) intercepting(found []Finding) Host {
	add := nodeconfig.Intercept{ClusterDNS: true}
	switch is := func(name string) bool {
		return slices.ContainsFunc(found, func(f Finding) bool { return f.Origin == name })
	}; {
	case !h.State.Config.Intercept.IsNone():
		return h
	case is("nodelocaldns") && len(h.notInterceptable()) == 0:
		add.Addrs = h.cacheAddrs()
	case is("intercept"):
	default:
		return h
	}
	h.adds, h.State.Config.Intercept = add, add
	h.Plan = hostdns.NewPlan(h.State)
	return h
}

// interceptStep returns the step that adds `intercept` to node-dns.yaml, if the plan needs one, or
// the reason why only an admin can add it.
func (h Host) interceptStep() (steps []Step, refused []string) {
	if h.adds.IsNone() {
		return nil, nil
	}
	values := strings.Fields(h.adds.String())
	setting := "intercept: [" + strings.Join(values, ", ") + "]"
	text, ok := withSetting(h.Files[ourConfig], "Addresses whose queries come to this node", "intercept", values)
	if !ok {
		return nil, []string{"set " + setting + " in " + ourConfig + ": node-dns migrate cannot add a key to this file"}
	}
	return []Step{writeStep(ourConfig, text, setting+", so that pods' queries to these addresses come to this node")}, nil
}

// awaitIntercepted waits until the queries of pods come here, or will when NodeLocal DNSCache
// leaves.
func awaitIntercepted(ctx context.Context) error {
	return await(ctx, "pods' queries to come to this node", checkPatience, func() (bool, error) {
		status, err := fetchStatus(ctx)
		if err == nil {
			err = notIntercepted(status.Interception)
		}
		return err == nil, err
	})
}

// notIntercepted returns an error with the reason why pods' queries do not come here. It returns
// nil if the configuration does not ask for that.
func notIntercepted(i *control.Interception) error {
	if i == nil {
		return nil
	}
	if why := i.Missing(); why != "" {
		return errors.New(why)
	}
	var errs []error
	for _, a := range i.Off() {
		errs = append(errs, fmt.Errorf("%s: %s", a.Address, a.Why))
	}
	return errors.Join(errs...)
}
