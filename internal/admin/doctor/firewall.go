package doctor

import (
	"strings"

	"github.com/node-dns/node-dns/internal/admin/firewall"
)

// checkInputFilter checks whether firewalld, nftables or iptables drop DNS from clients. Other
// checks cannot notice that: their queries arrive over loopback, which such filters accept.
func checkInputFilter(s Snapshot) []Finding {
	server := s.Host.Nameserver()
	server.Listen = s.wanted()
	var found []Finding
	for _, f := range s.Host.Filter.Find(server) {
		level := warn
		if f.Drops && f.Expected {
			level = fail
		}
		found = append(found, level(f.What, f.Fix, f.Details...))
	}
	names := firewall.Names(server.Links())
	if len(names) == 0 || s.Host.Filter.Firewalld == nil && s.Host.Filter.Rules == nil {
		return found
	}
	return orFine(found, "no input filter drops DNS from clients on %s", strings.Join(names, ", "))
}
