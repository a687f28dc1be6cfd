package hostdns

import (
	"fmt"
	"strings"

	"github.com/node-dns/node-dns/internal/resolvconf"
)

// glibc before 2.26 reads six search domains and 256 characters of them; RHEL 7 has 2.17.
const (
	oldSearchDomains    = 6
	oldSearchCharacters = 256
)

// searchList is the search list that resolv.conf must have: the cluster domain first, then the host's own.
func searchList(s State) []string {
	cluster := s.Config.ClusterDomain.Relative()
	list := []string{cluster}
	for _, domain := range hostSearch(s) {
		if !strings.EqualFold(domain, cluster) {
			list = append(list, domain)
		}
	}
	return list
}

// hostSearch is the search list the host would have without us.
//
// A file that is not ours says it itself. In one that is ours only NetworkManager knows better, and only where it is
// the one who writes the list: dns=none makes the list the admin's, and it stays as it stands in the file, unless the
// admin's own file had none.
func hostSearch(s State) []string {
	own := resolvconf.Parse(s.ResolvConf.Data).Search()
	theirs := networkManagerSearch(s)
	switch {
	case !s.isOurs() && len(own) > 0:
		return own
	case !s.isOurs():
		return theirs
	case s.networkManagerWritesResolvConf() && len(theirs) > 0:
		return theirs
	case s.NetworkManager != nil && s.Original.Exists && len(resolvconf.Parse(s.Original.Data).Search()) == 0:
		return theirs
	}
	return own
}

// networkManagerSearch prefers NetworkManager's file over its D-Bus data: the file is its own merge of them.
func networkManagerSearch(s State) []string {
	if list := resolvconf.Parse(s.NetworkManagerConf.Data).Search(); len(list) > 0 {
		return list
	}
	if s.NetworkManager != nil {
		return s.NetworkManager.SearchList()
	}
	return nil
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
