package daemon

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/control"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/searchlist"
)

// searchConf is the resolv.conf that a question is about, as it is now.
func (d *Daemon) searchConf(_ context.Context, question control.SearchQuestion) (control.Search, error) {
	s := d.serving.Load()
	out := control.Search{
		APIVersion: control.APIVersion, Kind: "Search", Namespace: question.Namespace, Pod: question.Pod,
		Nameservers: []string{}, Domains: []string{}, Options: []string{}, Own: []string{}, Faults: []control.Fault{}, Notes: []string{},
	}
	if question.Namespace == "" {
		d.addNodeConf(s, &out)
		return out, nil
	}
	if !isNamespace(question.Namespace) {
		return out, control.MistakeError{Why: "the namespace " + nodeconfig.Quote(question.Namespace) + ": expected the name of one"}
	}
	d.addPodConf(s, &out, searchlist.Pod{Namespace: question.Namespace})
	return out, nil
}

// isNamespace: a label of RFC 1123.
func isNamespace(text string) bool {
	isLetter := func(r rune) bool { return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' }
	return len(text) <= 63 && text != "" && strings.IndexFunc(text, func(r rune) bool { return !isLetter(r) }) < 0
}

// addNodeConf adds what a process on this node goes by.
func (d *Daemon) addNodeConf(s *serving, out *control.Search) {
	path := d.paths.host.ResolvConf
	conf := searchlist.Of(resolvconf.Parse(hostdns.ReadFile(d.paths.host.Root, path).Data))
	hostname, _ := os.Hostname() // one without a name has no domain
	_, conf.LocalDomain, _ = strings.Cut(hostname, ".")
	out.Autopath.Why = "it is for pods"
	d.addConf(s, out, conf)
	out.Faults = faultsOf(s.checks(d, control.HostFile{}).Node(conf))
}

// addPodConf adds what the kubelet gives to a pod.
func (d *Daemon) addPodConf(s *serving, out *control.Search, pod searchlist.Pod) {
	kubelet, host := d.kubelet(s)
	conf := kubelet.Conf(pod)
	out.Host = &host
	d.addConf(s, out, kubelet.Limits.Cut(conf))
	out.Faults = faultsOf(s.checks(d, host).Pod(kubelet, conf))
	walk := d.autopathStatus(s)
	if out.Autopath = (control.Walk{On: walk.On, Why: walk.Why}); d.names.known() == nil {
		out.Autopath = control.Walk{Why: "the Kubernetes API is not read"}
	}
}

func (d *Daemon) addConf(s *serving, out *control.Search, conf searchlist.Conf) {
	for _, addr := range conf.Nameservers {
		out.Nameservers = append(out.Nameservers, addr.String())
		if s.net.IsLocal(addr) && !addr.IsLoopback() && !slices.Contains(out.Own, addr.String()) {
			out.Own = append(out.Own, addr.String())
		}
	}
	out.Domains, out.Options = append(out.Domains, conf.Search...), append(out.Options, conf.Options...)
	if len(conf.Search) == 0 {
		out.LocalDomain = conf.LocalDomain
	}
}

// kubelet is what is known of the kubelet here.
func (d *Daemon) kubelet(s *serving) (searchlist.Kubelet, control.HostFile) {
	path := s.config.KubeletResolvConf
	host := control.HostFile{Source: s.config.Where("resolvConf", "kubeletArguments.resolv-conf"), Nameservers: []string{}, Search: []string{}}
	if path == "" {
		path = d.paths.host.ResolvConf
	}
	host.Path = path
	if rel, ok := strings.CutPrefix(path, strings.TrimSuffix(d.paths.host.Root, "/")); ok {
		host.Path = rel
	}
	file := resolvconf.Parse(hostdns.ReadFile(d.paths.host.Root, path).Data)
	conf := searchlist.Conf{Nameservers: file.Nameservers(), Search: file.SearchLine(), Options: file.Options()}
	for _, addr := range conf.Nameservers {
		host.Nameservers = append(host.Nameservers, addr.String())
	}
	host.Search = append(host.Search, conf.Search...)
	k := searchlist.Kubelet{Domain: s.config.ClusterDomain.Relative(), Host: conf, Limits: searchlist.LimitsOf(s.config.IsOpenShift)}
	for _, addr := range s.config.DNSIPs {
		if addr.IsUnspecified() {
			addr = s.nodeIP
		}
		k.DNS = append(k.DNS, addr)
	}
	if len(k.DNS) == 0 && s.nodeIP.IsValid() {
		k.DNS = []netip.Addr{s.nodeIP}
	}
	return k, host
}

// checks are what is known here of a resolv.conf's surroundings.
func (s *serving) checks(d *Daemon, host control.HostFile) searchlist.Checks {
	c := searchlist.Checks{IsNode: s.net.IsLocal, HostFile: host.Path, Setting: "resolvConf in /var/lib/kubelet/config.yaml"}
	if s.config.IsOpenShift {
		c.Setting = "kubeletArguments: {resolv-conf: [FILE]} in /etc/origin/node/node-config.yaml"
	}
	listening := d.listening()
	c.Answers = func(addr netip.Addr) bool { return slices.Contains(listening, netip.AddrPortFrom(addr.Unmap(), 53)) }
	view := d.host.Load()
	if view == nil {
		return c
	}
	usual := hostdns.NewPaths("")
	if s.namesOthers(view.state.NodeResolvConf) {
		c.Originals = usual.NodeResolvConf
	}
	if s.namesOthers(view.state.ResolvedUplinks) {
		c.Uplinks = usual.ResolvedUplinks
	}
	return c
}

// namesOthers reports whether a resolv.conf names nameservers, none of them this node.
func (s *serving) namesOthers(f hostdns.File) bool {
	addrs := resolvconf.Parse(f.Data).Nameservers()
	return len(addrs) > 0 && !slices.ContainsFunc(addrs, s.net.IsLocal)
}

func faultsOf(faults []searchlist.Fault) []control.Fault {
	all := []control.Fault{}
	for _, f := range faults {
		all = append(all, control.Fault{What: f.What, Fix: f.Fix})
	}
	return all
}
