package daemon

import (
	"fmt"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/searchlist"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// kubelet is what is known of the kubelet here, and who says so.
type kubelet struct {
	searchlist.Kubelet
	host                    control.HostFile // its resolvConf
	missing                 bool             // it does not exist
	unread                  string           // why it cannot be read; "": it can
	setBy                   string           // where the kubelet that runs is told of it, or would be; "": not known
	isOurs                  bool             // it is of our hand, and names this node, whatever address that has by now
	dnsSource, domainSource string
	noDNS                   bool     // the one that runs was told of no clusterDNS
	notes                   []string // of what the kubelet that runs was told in the place of what our files say
}

// kubeletByFiles is what the cluster's file says, and node-dns.yaml of the cluster domain.
func (d *Daemon) kubeletByFiles(s *policy.Policy) kubelet {
	k := kubelet{Kubelet: searchlist.Kubelet{Domain: s.Config.ClusterDomain.Relative(), Limits: searchlist.LimitsOf(s.Config.IsOpenShift)}}
	k.dnsSource = s.Config.WhereCluster("clusterDNS", "kubeletArguments.cluster-dns", "dnsIP")
	k.domainSource = s.Config.Where("clusterDomain", "kubeletArguments.cluster-domain", "dnsDomain")
	path := s.Config.KubeletResolvConf
	if path == "" {
		path = d.paths.host.ResolvConf
	}
	k.host = control.HostFile{Path: d.hostPath(path), Source: s.Config.WhereCluster("resolvConf", "kubeletArguments.resolv-conf")}
	read := hostdns.ReadFile(d.paths.host.Root, path)
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

// setHost takes over what its resolvConf says.
func (k *kubelet) setHost(conf searchlist.Conf) {
	k.Host = conf
	k.host.Nameservers, k.host.Search = []string{}, append([]string{}, k.Host.Search...)
	for _, addr := range k.Host.Nameservers {
		k.host.Nameservers = append(k.host.Nameservers, addr.String())
	}
}

// hear has the kubelet that runs, whose word counts more than our files', say what it was told; nil: nothing is known of it. ours is the
// cluster's file that we have read: what the kubelet has from there is no news.
func (k *kubelet) hear(told *control.KubeletTold, ours string) {
	if told == nil {
		return
	}
	if told.DNSSource != "" {
		k.DNS, k.dnsSource, k.noDNS = told.DNS, told.DNSSource, len(told.DNS) == 0
		k.note(ours, told.DNSSource, "its nameservers are by %s", "the kubelet was told of no clusterDNS: pods have the nameservers of its resolvConf")
	}
	if told.DomainSource != "" {
		k.Domain, k.domainSource = told.Domain, told.DomainSource
		k.note(ours, told.DomainSource, "the cluster domain in its search list is by %s", "the kubelet was told of no clusterDomain: no search list has the cluster's names")
	}
	if file := told.ResolvConf; file != nil {
		k.host.Path, k.host.Source, k.setBy, k.NoFile = file.Path, told.ResolvConfSource, told.ResolvConfSetting, file.Path == ""
		k.missing, k.unread = file.Missing, file.Unread
		k.setHost(searchlist.Conf{Nameservers: file.Nameservers, Search: file.Search, Options: file.Options})
		k.isOurs = file.Ours
	}
	for _, problem := range told.Problems[:min(len(told.Problems), control.MaxKubeletProblems)] {
		if problem.Denied == "" || problem.Denied != ours {
			k.notes = append(k.notes, fmt.Sprintf("not all is known of what the kubelet, pid %d, was told: %s", told.PID, problem.Text))
		}
	}
}

// note says where the kubelet was told something, or that it was told nowhere.
func (k *kubelet) note(ours, source, somewhere, nowhere string) {
	_, place, _ := strings.Cut(source, " ")
	switch {
	case source == searchlist.ByDefault:
		k.notes = append(k.notes, nowhere)
	case ours == "" || !strings.HasPrefix(place, ours+":"):
		k.notes = append(k.notes, fmt.Sprintf(somewhere, source))
	}
}

// domainFaults are those of a kubelet whose cluster domain is another than ours.
func (k *kubelet) domainFaults(ours string) []searchlist.Fault {
	if k.Domain == "" || k.Domain == ours {
		return nil
	}
	what := "does not know the cluster domain"
	if ours != "" {
		what = "answers for " + ours
	}
	return []searchlist.Fault{{
		What: fmt.Sprintf("pods look for the cluster's names in %s (%s), and node-dns %s", k.Domain, k.domainSource, what),
		Fix:  "set clusterDomain: " + k.Domain + " in /etc/node-dns/node-dns.yaml",
	}}
}
