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

// glibc before 2.26 reads six search domains and 256 characters of them; RHEL 7 has 2.17.
const (
	oldSearchDomains    = 6
	oldSearchCharacters = 256
)

// searchList is the search list that resolv.conf must have: the cluster domain first, then the host's own.
func searchList(s State) []string {
	if !s.searchesCluster() {
		return hostSearch(s)
	}
	return append([]string{s.Config.ClusterDomain.Relative()}, hostSearch(s)...)
}

// searchesCluster reports whether the cluster domain is searched: a cluster is known, or the host searched it before. Without a
// cluster its names fail with SERVFAIL, and libc reports that of each missing name that it looks for there.
func (s State) searchesCluster() bool {
	return s.HasCluster || s.Config.HasCluster() || s.hadClusterDomain()
}

// hadClusterDomain reports whether the cluster domain was in the search list before it was ours.
func (s State) hadClusterDomain() bool {
	before := s.ResolvConf
	if s.isOurs() {
		before = s.Original
	}
	return slices.ContainsFunc(resolvconf.Parse(before.Data).Search(), func(domain string) bool {
		name, err := dnsname.Parse(domain)
		return err == nil && name == s.Config.ClusterDomain
	})
}

// hostSearch is the search list the host would have without us, and so without the cluster domain.
//
// It is NetworkManager's while that writes the file, or would without our Snippet: whatever a tool wrote there once. Else the
// file says it itself, ours too, because its lines were kept. If ours displaced a link, what that leads to is kept up to
// date by the program that made it, and may be empty again when a VPN has gone. A file without a list gets NetworkManager's,
// but with dns=none, where the nameservers are the admin's. None of this asks whether the file is ours yet: the first run and the second
// must agree.
func hostSearch(s State) []string {
	own := hostDomains(s, resolvconf.Parse(s.base().Data).Search())
	if behind := resolvconf.Parse(s.Original.Data); s.keepsOriginal() && s.Original.Link != "" && len(behind.Nameservers()) > 0 {
		own = hostDomains(s, behind.Search())
	}
	theirs, known := networkManagerSearch(s)
	if len(own) == 0 && !s.goesByAdminsFile() || known && s.networkManagerWritesSearch() {
		return hostDomains(s, theirs)
	}
	return own
}

// goesByAdminsFile reports whether, with dns=none, resolv.conf names a nameserver, or did before it was ours.
func (s State) goesByAdminsFile() bool {
	file := s.ResolvConf
	switch {
	case !s.leavesFile():
		return false
	case s.keepsOriginal():
		file = s.Original
	case s.isOurs():
		return false // there was none
	}
	return usable(refuseCopies(s), file.Data)
}

// hostDomains leaves the cluster domain out of a list, the usual one while it is not known, and what is no domain name:
// none of that would be written. Nor is a wildcard: nothing is found below it, and a script that reads the file may
// expand it.
func hostDomains(s State, list []string) []string {
	cluster := cmp.Or(s.Config.ClusterDomain.Relative(), nodeconfig.DefaultClusterDomain)
	return slices.DeleteFunc(list, func(domain string) bool {
		name, err := dnsname.Parse(domain)
		return err != nil || name.Relative() == cluster || strings.Contains(domain, "*")
	})
}

// networkManagerSearch prefers NetworkManager's file over its D-Bus data: the file is its own merge of them, and may search nothing,
// as where a connection of negative dns-priority has nothing to search. known is false where NetworkManager says nothing of it, and
// where it runs without a nameserver: the list follows the nameservers.
func networkManagerSearch(s State) (list []string, known bool) {
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

func searchWarnings(s State) []string {
	list := searchList(s)
	switch {
	case len(list) > oldSearchDomains:
		return []string{fmt.Sprintf("the search list has %d domains: glibc before 2.26 reads %d, so %s and later are not searched there",
			len(list), oldSearchDomains, list[oldSearchDomains])}
	case len(strings.Join(list, " ")) > oldSearchCharacters:
		return []string{fmt.Sprintf("the search list is longer than the %d characters that glibc before 2.26 reads", oldSearchCharacters)}
	}
	return nil
}
