package hostdns

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dnsname"
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
	return append([]string{s.Config.ClusterDomain.Relative()}, hostSearch(s)...)
}

// hostSearch is the search list the host would have without us, and so without the cluster domain.
//
// The file says it itself, ours too, because what stood there was kept. NetworkManager knows better only where the list
// is its own: it writes the file, and the file says so. dns=none makes the list the admin's. A file without a list gets
// NetworkManager's. Where ours displaced a link, what that leads to is kept up to date by who made it. None of this asks whether the file is ours yet: the first run and the second must agree.
func hostSearch(s State) []string {
	own := hostDomains(s, resolvconf.Parse(s.ResolvConf.Data).Search())
	if behind := hostDomains(s, resolvconf.Parse(s.Original.Data).Search()); s.Original.Link != "" && len(behind) > 0 {
		own = behind
	}
	theirs := hostDomains(s, networkManagerSearch(s))
	if len(own) == 0 || len(theirs) > 0 && s.networkManagerWritesSearch() {
		return theirs
	}
	return own
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
