package hostdns

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// glibc before 2.26 reads at most six search domains and 256 characters of them. RHEL 7 has glibc
// 2.17.
const (
	oldSearchDomains    = 6
	oldSearchCharacters = 256
)

// searchList returns resolv.conf's search list: the cluster domain, then the host's own domains.
func searchList(s *State) []string {
	if !s.searchesCluster() {
		return hostSearch(s)
	}
	return append([]string{s.Config.ClusterDomain.Relative()}, hostSearch(s)...)
}

// searchesCluster reports whether to search the cluster domain: if a cluster is configured, or if
// the host searched it before. Without a cluster its names fail with SERVFAIL, which libc then
// reports for each name that does not exist.
func (s *State) searchesCluster() bool {
	return s.HasCluster || s.Config.HasCluster() || s.hadClusterDomain()
}

// hadClusterDomain reports whether the host's own resolv.conf searched the cluster domain.
func (s *State) hadClusterDomain() bool {
	before := s.ResolvConf
	if s.isOurs() {
		before = s.Original
	}
	return slices.ContainsFunc(resolvconf.Parse(before.Data).Search(), func(domain string) bool {
		name, err := dnsname.Parse(domain)
		return err == nil && name == s.Config.ClusterDomain
	})
}

// hostSearch returns the search list that the host would have without node-dns, so without the
// cluster domain.
//
// It is NetworkManager's list if NetworkManager writes the file, or would without our Snippet, even
// if another tool has written the file since. Otherwise it is the list in the file, also in ours,
// because ours keeps the host's. If ours replaced a link, the link's target counts: the program
// that made the link keeps it up to date, and its list may become empty when a VPN ends. A file
// without a list gets NetworkManager's, except with dns=none if the nameservers are the admin's.
// The result must not depend on whether the file is already ours: the first and the second run must
// agree.
func hostSearch(s *State) []string {
	own := hostDomains(s, resolvconf.Parse(s.base().Data).Search())
	if behind := resolvconf.Parse(s.Original.Data); s.keepsOriginal() && s.Original.Link != "" && len(behind.Nameservers()) > 0 {
		own = hostDomains(s, behind.Search())
	}
	if theirs, _ := networkManagerSearch(s); len(own) == 0 && !s.usesAdminsFile() || s.followsNetworkManagerSearch() {
		return hostDomains(s, theirs)
	}
	return own
}

// followsNetworkManagerSearch reports whether the search list is NetworkManager's, whatever
// resolv.conf contains.
func (s *State) followsNetworkManagerSearch() bool {
	_, known := networkManagerSearch(s)
	return known && s.networkManagerWritesSearch()
}

// usesAdminsFile reports whether dns=none is set and the admin's resolv.conf names a nameserver.
func (s *State) usesAdminsFile() bool {
	file := s.ResolvConf
	switch {
	case !s.leavesFile():
		return false
	case s.keepsOriginal():
		file = s.Original
	case s.isOurs():
		return false // there was no original
	}
	return usable(refuseCopies(s), file.Data)
}

// hostDomains removes from a list what must not be written: the cluster domain (the default one if
// unknown), invalid domain names, and wildcards. A wildcard never matches anything, and a shell
// script that reads the file may expand it.
func hostDomains(s *State, list []string) []string {
	cluster := cmp.Or(s.Config.ClusterDomain.Relative(), nodeconfig.DefaultClusterDomain)
	return slices.DeleteFunc(list, func(domain string) bool {
		name, err := dnsname.Parse(domain)
		return err != nil || name.Relative() == cluster || strings.Contains(domain, "*")
	})
}

// networkManagerSearch prefers NetworkManager's file to its D-Bus data, because the file is
// NetworkManager's own merge. The file's list may be empty, for example if a connection with a
// negative dns-priority has no search domains. known is false if NetworkManager provides no list,
// or runs without a nameserver: the list belongs to the nameservers.
func networkManagerSearch(s *State) (list []string, known bool) {
	if s.networkManagerIsEmpty() {
		return nil, false
	}
	file := resolvconf.Parse(s.NetworkManagerConf.Data)
	if list = file.Search(); len(list) > 0 || len(file.Nameservers()) > 0 {
		return list, true
	}
	if s.NetworkManager != nil {
		list = s.NetworkManager.SearchList()
	}
	return list, len(list) > 0
}

// hostNamesDomain returns the domain that glibc searches without node-dns because the host's
// resolv.conf has neither a search list nor a domain (resolv.conf(5)), or "". It is not added to
// our list, because a kubelet that reads our file would pass it on to pods.
func (s *State) hostNamesDomain() string {
	file := s.ResolvConf
	if s.isOurs() {
		file = s.Original
	}
	conf := resolvconf.Parse(file.Data)
	_, domain, _ := strings.Cut(s.HostName, ".")
	if len(conf.Written()) > 0 || len(conf.Nameservers()) == 0 || len(hostDomains(s, []string{domain})) == 0 {
		return ""
	}
	return domain
}

func searchWarnings(s *State) []string {
	list := searchList(s)
	domain := s.hostNamesDomain()
	switch {
	case domain != "" && len(list) > 0 && !slices.Contains(list, domain):
		return []string{fmt.Sprintf("programs on this host searched %s, the domain of its host name, because /etc/resolv.conf had no search list; "+
			`to keep it, add "search %s" to the file`, domain, domain)}
	case len(list) > oldSearchDomains:
		return []string{fmt.Sprintf("the search list has %d domains, but glibc before 2.26 reads only %d: it does not search %s and later ones",
			len(list), oldSearchDomains, list[oldSearchDomains])}
	case len(strings.Join(list, " ")) > oldSearchCharacters:
		return []string{fmt.Sprintf("the search list is longer than the %d characters that glibc before 2.26 reads", oldSearchCharacters)}
	}
	return nil
}
