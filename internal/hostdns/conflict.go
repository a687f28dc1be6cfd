package hostdns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/upstream"
)

// conflicts lists where an admin's static servers conflict with other servers that this host was
// given. The daemon reports conflicts with dnsmasq's files.
func conflicts(s *State, selection upstream.Selection) []string {
	var said []string
	refused := refuse(s)
	usable := func(servers []nameserver.Server) []nameserver.Server {
		return slices.DeleteFunc(slices.Clone(servers), func(server nameserver.Server) bool { return refused(server) != "" })
	}
	if s.NetworkManager != nil && selection.Origin == upstream.NetworkManager {
		for _, m := range s.NetworkManager.Mixed(defaultInterfaces(s)) {
			if m.Static, m.Automatic = usable(m.Static), usable(m.Automatic); len(m.Static) > 0 && len(m.Automatic) > 0 {
				said = append(said, mixture(m))
			}
		}
	}
	if s.ConfigErr != nil {
		return said
	}
	claims := s.Config.Claims(nil)
	for i := range claims {
		claims[i].Servers = usable(claims[i].Servers)
	}
	captured := upstream.Candidate{Origin: selection.Origin, Detail: selection.Detail, Set: selection.Set}
	_, losses := nameserver.Settle(append(claims, captured.Claim()))
	for _, loss := range losses {
		if loss.IsConflict() {
			said = append(said, loss.Sentence())
		}
	}
	return said
}

// mixture reports that a connection has both static and automatic nameservers, and which setting
// removes the automatic ones.
func mixture(m nm.Mixed) string {
	var settings []string
	for _, server := range m.Automatic {
		setting := "ipv6.ignore-auto-dns yes"
		if server.Addr.Addr().Is4() {
			setting = "ipv4.ignore-auto-dns yes"
		}
		if !slices.Contains(settings, setting) {
			settings = append(settings, setting)
		}
	}
	slices.Sort(settings)
	return fmt.Sprintf("%s: static DNS %s is used before DNS %s from the network; set %s to ignore the latter",
		nm.DNSConfig{Interface: m.Interface, Connection: m.Connection}.Source(),
		nameserver.Join(m.Static), nameserver.Join(m.Automatic), strings.Join(settings, " and "))
}
