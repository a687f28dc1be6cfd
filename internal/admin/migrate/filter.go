package migrate

import (
	"fmt"

	"github.com/node-dns/node-dns/internal/admin/firewall"
)

// Nameserver describes this node's nameserver after the migration, and its clients.
func (h Host) Nameserver() firewall.Nameserver {
	config := h.State.Config
	return firewall.Nameserver{Listen: h.listen(), Net: h.State.Net, PodCIDRs: config.PodCIDRs, AllowFrom: config.AllowFrom}
}

// filtered returns notes about input filters that drop DNS from clients. A migration does not
// change them: they treat node-dns like the nameserver before it.
func (h Host) filtered() []string {
	var notes []string
	for _, f := range h.Filter.Find(h.Nameserver()) {
		notes = append(notes, fmt.Sprintf("%s; fix: %s", f.What, f.Fix))
	}
	return notes
}
