package daemon

import (
	"fmt"

	"github.com/node-dns/node-dns/internal/control"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/searchlist"
)

// kubelet is what is known of the kubelet here, and who says so.
type kubelet struct {
	searchlist.Kubelet
	host                    control.HostFile // its resolvConf
	missing                 bool             // it does not exist
	unread                  string           // why it cannot be read; "": it can
	byFlag                  bool             // a flag names it
	isOurs                  bool             // it is of our hand, and names this node, whatever address that has by now
	dnsSource, domainSource string
	notes                   []string // of what flags say in the files' place
}

// kubeletByFiles is what the cluster's file says, and node-dns.yaml of the cluster domain.
func (d *Daemon) kubeletByFiles(s *serving) kubelet {
	k := kubelet{Kubelet: searchlist.Kubelet{Domain: s.config.ClusterDomain.Relative(), Limits: searchlist.LimitsOf(s.config.IsOpenShift)}}
	k.dnsSource = s.config.WhereCluster("clusterDNS", "kubeletArguments.cluster-dns", "dnsIP")
	k.domainSource = s.config.Where("clusterDomain", "kubeletArguments.cluster-domain", "dnsDomain")
	path := s.config.KubeletResolvConf
	if path == "" {
		path = d.paths.host.ResolvConf
	}
	k.host = control.HostFile{Path: d.hostPath(path), Source: s.config.WhereCluster("resolvConf", "kubeletArguments.resolv-conf")}
	read := hostdns.ReadFile(d.paths.host.Root, path)
	if k.missing = !read.Exists; read.Err != nil {
		k.unread = read.Err.Error()
	}
	k.setHost(read.Data)
	for _, addr := range s.config.DNSIPs {
		if addr.IsUnspecified() {
			addr = s.nodeIP
		}
		k.DNS = append(k.DNS, addr)
	}
	return k
}

// setHost takes over what its resolvConf says.
func (k *kubelet) setHost(data []byte) {
	file := resolvconf.Parse(data)
	k.isOurs = hostdns.IsOurs(data)
	k.Host = searchlist.Conf{Nameservers: file.Nameservers(), Search: file.SearchLine(), Options: file.Options()}
	k.host.Nameservers, k.host.Search = []string{}, append([]string{}, k.Host.Search...)
	for _, addr := range k.Host.Nameservers {
		k.host.Nameservers = append(k.host.Nameservers, addr.String())
	}
}

// hear has the kubelet's command line, which wins over its file, say what it does; nil: nothing is known of it.
func (k *kubelet) hear(flags *control.KubeletFlags) {
	if flags == nil {
		return
	}
	if len(flags.DNS) > 0 {
		k.DNS, k.dnsSource = flags.DNS, flags.Where(searchlist.FlagDNS)
		k.notes = append(k.notes, "its nameservers are by "+k.dnsSource)
	}
	if flags.Domain != nil {
		k.Domain, k.domainSource = *flags.Domain, flags.Where(searchlist.FlagDomain)
		k.notes = append(k.notes, "the cluster domain in its search list is by "+k.domainSource)
	}
	if file := flags.ResolvConf; file != nil {
		k.host.Path, k.host.Source, k.byFlag, k.NoFile = file.Path, flags.Where(searchlist.FlagResolvConf), true, file.Path == ""
		k.missing, k.unread = file.Missing, file.Unread
		k.setHost([]byte(file.Text))
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
