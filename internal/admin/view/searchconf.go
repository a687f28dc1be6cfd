package view

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// SearchConf returns the current resolv.conf that a question is about.
func (v *View) SearchConf(ctx context.Context, question control.SearchQuestion) (control.Search, error) {
	s := v.policy()
	if question.As != "" {
		var err error
		if question.Namespace, question.Pod, err = v.podOfClient(question.As); err != nil {
			return control.Search{}, err
		}
	}
	out := control.Search{
		APIVersion: control.APIVersion, Kind: "Search", Namespace: question.Namespace, Pod: question.Pod,
		Nameservers: []string{}, Domains: []string{}, Options: []string{}, Own: []string{}, Faults: []control.Fault{}, Notes: []string{}, LeftTo: s.LeftTo,
	}
	if question.Namespace == "" {
		v.addNodeConf(s, &out)
		return out, nil
	}
	if !isNamespace(question.Namespace) {
		return out, control.MistakeError{Why: "invalid namespace " + nodeconfig.Quote(question.Namespace) + "; expected a DNS label (RFC 1123)"}
	}
	pod := resolvconf.Pod{Namespace: question.Namespace}
	if question.Pod != "" {
		var err error
		if pod, err = v.podOf(ctx, s, question); err != nil {
			if question.As != "" {
				err = fmt.Errorf("%w; --as ADDRESS --namespace %s uses the search list of an ordinary pod there", err, question.Namespace)
			}
			return out, err
		}
		out.Policy = pod.Policy
	}
	v.addPodConf(s, &out, pod, question.Kubelet)
	if !pod.IsClusterFirst() || pod.HostNetwork || len(pod.Own.Search) > 0 {
		out.Autopath = control.Walk{Why: "the pod's search list or address differs from the default of its namespace"}
	}
	return out, nil
}

// podOf fetches a pod's settings from the Kubernetes API.
func (v *View) podOf(ctx context.Context, s *policy.Policy, question control.SearchQuestion) (resolvconf.Pod, error) {
	pod := resolvconf.Pod{Namespace: question.Namespace}
	name := question.Namespace + "/" + question.Pod
	if !isPodName(question.Pod) {
		return pod, control.MistakeError{Why: "invalid pod " + nodeconfig.Quote(name) + "; expected a DNS subdomain (RFC 1123) as its name"}
	}
	if s.API == (policy.API{}) {
		return pod, fmt.Errorf("the DNS settings of the pod %s are unknown because the Kubernetes API is not used (kubeconfig); "+
			"--namespace %s shows the search list of a pod without settings of its own", name, question.Namespace)
	}
	config := cluster.Config{Kubeconfig: s.API.Kubeconfig, NodeName: s.API.Node, Version: v.config.Version}
	said, err := cluster.FetchPodDNS(ctx, config, zone.Key{Namespace: question.Namespace, Name: question.Pod})
	if err != nil {
		return pod, fmt.Errorf("asking the Kubernetes API for the pod %s: %w", name, err)
	}
	pod.Policy, pod.HostNetwork = said.Policy, said.HostNetwork
	if pod.Policy == "" {
		pod.Policy = resolvconf.PolicyClusterFirst
	}
	for _, text := range said.Config.Nameservers {
		if addr, err := netip.ParseAddr(text); err == nil { // always valid: the API server checks it
			pod.Own.Nameservers = append(pod.Own.Nameservers, addr)
		}
	}
	pod.Own.Search = said.Config.Searches
	for _, option := range said.Config.Options {
		word := option.Name
		if option.Value != nil && *option.Value != "" {
			word += ":" + *option.Value
		}
		pod.Own.Options = append(pod.Own.Options, word)
	}
	return pod, nil
}

// isPodName reports whether text is a DNS subdomain (RFC 1123), like the names of pods in the API.
func isPodName(text string) bool {
	for label := range strings.SplitSeq(text, ".") {
		if !isNamespace(label) {
			return false
		}
	}
	return len(text) <= 253
}

// isNamespace reports whether text is a label (RFC 1123).
func isNamespace(text string) bool {
	isLetter := func(r rune) bool { return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' }
	return len(text) <= 63 && text != "" && strings.IndexFunc(text, func(r rune) bool { return !isLetter(r) }) < 0
}

// addNodeConf adds the settings for a process on this node.
func (v *View) addNodeConf(s *policy.Policy, out *control.Search) {
	path := v.paths.ResolvConf
	conf := resolvconf.Parse(hostdns.ReadFile(v.paths.Root, path).Data).Content()
	hostname, _ := os.Hostname() // empty if the host has no name
	_, conf.LocalDomain, _ = strings.Cut(hostname, ".")
	out.Autopath.Why = "it applies only to pods"
	v.addConf(s, out, conf)
	out.Faults = faultsOf(checks(s, v, control.HostFile{}).Node(conf))
}

// addPodConf adds the settings that the kubelet gives to a pod.
func (v *View) addPodConf(s *policy.Policy, out *control.Search, pod resolvconf.Pod, told *control.KubeletTold) {
	k := v.kubeletByFiles(s)
	k.applyRunning(told, clusterFile(s))
	if len(k.DNS) == 0 && !k.noDNS && s.NodeIP.IsValid() {
		k.DNS = []netip.Addr{s.NodeIP}
		out.Notes = append(out.Notes, "the kubelet's clusterDNS is set neither in a file nor by a flag; this node is assumed")
	}
	conf := k.Conf(pod)
	if pod.Policy != resolvconf.PolicyNone {
		out.Host, out.DNSSource, out.DomainSource = &k.host, k.dnsSource, k.domainSource
		out.Notes = append(out.Notes, k.notes...)
	}
	v.addConf(s, out, k.Limits.Cut(conf))
	if len(out.Own) == 0 && len(out.Nameservers) > 0 {
		out.Notes = append(out.Notes, "it asks "+strings.Join(out.Nameservers, " ")+", not this node; the answers shown are from node-dns")
	}
	checks := checks(s, v, k.host)
	checks.Setting = nodeconfig.ResolvConfSetting(s.Config.IsOpenShift, k.setBy)
	checks.Missing, checks.Unread = k.missing, k.unread
	if k.isOurs {
		checks.IsNode = func(netip.Addr) bool { return true }
	}
	if pod.Policy == resolvconf.PolicyNone {
		checks.HostFile = ""
	}
	out.Faults = append(faultsOf(checks.Pod(k.Kubelet, conf)), faultsOf(k.domainFaults(s.Config.ClusterDomain.Relative()))...)
	walk := v.autopathStatus(s)
	if out.Autopath = (control.Walk{On: walk.On, Why: walk.Why}); v.resolver.Known() == nil {
		out.Autopath = control.Walk{Why: "the Kubernetes API has not been read"}
	}
}

// clusterFile returns the host path of the cluster's file that we, or the hook for us, have read.
// It is empty if there is none.
func clusterFile(s *policy.Policy) string {
	if s.Config.Facts == nil {
		return ""
	}
	return s.Config.Facts.File
}

func (v *View) addConf(s *policy.Policy, out *control.Search, conf resolvconf.Content) {
	out.Nameservers = control.Texts(conf.Nameservers)
	for _, addr := range conf.Nameservers {
		if s.Net.IsLocal(addr) && !addr.IsLoopback() && !slices.Contains(out.Own, addr.String()) {
			out.Own = append(out.Own, addr.String())
		}
	}
	out.Domains, out.Options = append(out.Domains, conf.Search...), append(out.Options, conf.Options...)
	if len(conf.Search) == 0 {
		out.LocalDomain = conf.LocalDomain
	}
}

// hostPath returns path as the host sees it, without the root.
func (v *View) hostPath(path string) string {
	if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(v.paths.Root, "/")+"/"); ok {
		return "/" + rest
	}
	return path
}

// checks returns the inputs for checking a resolv.conf on this node.
func checks(s *policy.Policy, v *View, host control.HostFile) resolvconf.Checks {
	c := resolvconf.Checks{
		IsNode: s.Net.IsLocal, HostFile: host.Path, Hooks: hostdns.NewPaths("").NodeResolvConf,
	}
	listening := v.Listening()
	c.Answers = func(addr netip.Addr) bool { return slices.Contains(listening, netip.AddrPortFrom(addr.Unmap(), 53)) }
	if seen := v.Host.Load(); seen != nil {
		c.Writes, c.NamesNode = seen.Plan.WritesForPods(), seen.State.NamesNode()
		c.Originals, c.Uplinks = seen.State.ForPods()
	}
	return c
}

func faultsOf(faults []resolvconf.Fault) []control.Fault {
	all := []control.Fault{}
	for _, f := range faults {
		all = append(all, control.Fault{What: f.What, Fix: f.Fix})
	}
	return all
}

// kubelet is what is known about this node's kubelet, with the sources.
type kubelet struct {
	resolvconf.Kubelet
	host                    control.HostFile // its resolvConf
	missing                 bool             // whether host does not exist
	unread                  string           // reason why host cannot be read; empty if it can
	setBy                   string           // where the running kubelet's resolvConf is or would be set; empty if unknown
	isOurs                  bool             // whether node-dns wrote host, which then names this node even if its address has changed since
	dnsSource, domainSource string
	noDNS                   bool     // whether the running kubelet has no clusterDNS
	notes                   []string // notes about settings of the running kubelet that override our files
}

// kubeletByFiles returns the settings in the cluster's file, and the cluster domain in
// node-dns.yaml.
func (v *View) kubeletByFiles(s *policy.Policy) kubelet {
	k := kubelet{Kubelet: resolvconf.Kubelet{Domain: s.Config.ClusterDomain.Relative(), Limits: resolvconf.LimitsOf(s.Config.IsOpenShift)}}
	k.dnsSource = s.Config.WhereCluster("clusterDNS", "kubeletArguments.cluster-dns", "dnsIP")
	k.domainSource = s.Config.Where("clusterDomain", "kubeletArguments.cluster-domain", "dnsDomain")
	path := s.Config.KubeletResolvConf
	if path == "" {
		path = v.paths.ResolvConf
	}
	k.host = control.HostFile{Path: v.hostPath(path), Source: s.Config.WhereCluster("resolvConf", "kubeletArguments.resolv-conf")}
	read := hostdns.ReadFile(v.paths.Root, path)
	if k.missing = !read.Exists; read.Err != nil {
		k.unread = read.Err.Error()
	}
	file := resolvconf.Parse(read.Data)
	k.setHost(resolvconf.Content{Nameservers: file.Nameservers(), Search: file.SearchLine(), Options: file.Options()})
	k.isOurs = hostdns.IsOurs(read.Data)
	for _, addr := range s.Config.DNSIPs {
		if addr.IsUnspecified() {
			addr = s.NodeIP
		}
		k.DNS = append(k.DNS, addr)
	}
	return k
}

// setHost sets the content of resolvConf.
func (k *kubelet) setHost(conf resolvconf.Content) {
	k.Host = conf
	k.host.Nameservers, k.host.Search = control.Texts(conf.Nameservers), append([]string{}, conf.Search...)
}

// applyRunning applies the settings of the running kubelet, which override our files. told may be
// nil if they are unknown. ours is the cluster's file that we have read; settings from it need no
// note.
func (k *kubelet) applyRunning(told *control.KubeletTold, ours string) {
	if told == nil {
		return
	}
	if told.DNSSource != "" {
		k.DNS, k.dnsSource, k.noDNS = told.DNS, told.DNSSource, len(told.DNS) == 0
		k.note(ours, told.DNSSource, "its nameservers are set by %s", "the kubelet has no clusterDNS: pods get the nameservers of its resolvConf")
	}
	if told.DomainSource != "" {
		k.Domain, k.domainSource = told.Domain, told.DomainSource
		k.note(ours, told.DomainSource, "the cluster domain in its search list is set by %s", "the kubelet has no clusterDomain: search lists do not contain the cluster domain")
	}
	if file := told.ResolvConf; file != nil {
		k.host.Path, k.host.Source, k.setBy, k.NoFile = file.Path, told.ResolvConfSource, told.ResolvConfSetting, file.Path == ""
		k.missing, k.unread = file.Missing, file.Unread
		k.setHost(resolvconf.Content{Nameservers: file.Nameservers, Search: file.Search, Options: file.Options})
		k.isOurs = file.Ours
	}
	for _, problem := range told.Problems[:min(len(told.Problems), control.MaxKubeletProblems)] {
		if problem.Denied == "" || problem.Denied != ours {
			k.notes = append(k.notes, fmt.Sprintf("the configuration of the kubelet (pid %d) is only partly known: %s", told.PID, problem.Text))
		}
	}
}

// note records where a setting of the kubelet comes from, or that it is not set.
func (k *kubelet) note(ours, source, somewhere, nowhere string) {
	_, place, _ := strings.Cut(source, " ")
	switch {
	case source == nodeconfig.ByDefault:
		k.notes = append(k.notes, nowhere)
	case ours == "" || !strings.HasPrefix(place, ours+":"):
		k.notes = append(k.notes, fmt.Sprintf(somewhere, source))
	}
}

// domainFaults returns a fault if the kubelet's cluster domain differs from ours.
func (k *kubelet) domainFaults(ours string) []resolvconf.Fault {
	if k.Domain == "" || k.Domain == ours {
		return nil
	}
	what := "does not know the cluster domain"
	if ours != "" {
		what = "answers for " + ours
	}
	return []resolvconf.Fault{{
		What: fmt.Sprintf("pods search for the cluster's names in %s (%s), but node-dns %s", k.Domain, k.domainSource, what),
		Fix:  "set clusterDomain: " + k.Domain + " in /etc/node-dns/node-dns.yaml",
	}}
}
