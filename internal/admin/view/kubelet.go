package view

import (
	"fmt"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/searchlist"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// kubelet is what is known about this node's kubelet, with the sources.
type kubelet struct {
	searchlist.Kubelet
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
	k := kubelet{Kubelet: searchlist.Kubelet{Domain: s.Config.ClusterDomain.Relative(), Limits: searchlist.LimitsOf(s.Config.IsOpenShift)}}
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
	k.setHost(searchlist.Conf{Nameservers: file.Nameservers(), Search: file.SearchLine(), Options: file.Options()})
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
func (k *kubelet) setHost(conf searchlist.Conf) {
	k.Host = conf
	k.host.Nameservers, k.host.Search = []string{}, append([]string{}, k.Host.Search...)
	for _, addr := range k.Host.Nameservers {
		k.host.Nameservers = append(k.host.Nameservers, addr.String())
	}
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
		k.setHost(searchlist.Conf{Nameservers: file.Nameservers, Search: file.Search, Options: file.Options})
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
	case source == searchlist.ByDefault:
		k.notes = append(k.notes, nowhere)
	case ours == "" || !strings.HasPrefix(place, ours+":"):
		k.notes = append(k.notes, fmt.Sprintf(somewhere, source))
	}
}

// domainFaults returns a fault if the kubelet's cluster domain differs from ours.
func (k *kubelet) domainFaults(ours string) []searchlist.Fault {
	if k.Domain == "" || k.Domain == ours {
		return nil
	}
	what := "does not know the cluster domain"
	if ours != "" {
		what = "answers for " + ours
	}
	return []searchlist.Fault{{
		What: fmt.Sprintf("pods search for the cluster's names in %s (%s), but node-dns %s", k.Domain, k.domainSource, what),
		Fix:  "set clusterDomain: " + k.Domain + " in /etc/node-dns/node-dns.yaml",
	}}
}
