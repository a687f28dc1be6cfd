package hostdns

import (
	"net/netip"
	"slices"
	"strings"
)

// DropInWatermark is the comment line that marks a drop-in as ours.
const DropInWatermark = "# systemd-resolved asks this node: node-dns; undo: origin-dns-dispatcher restore"

// DropIn makes systemd-resolved send to one nameserver every query that no link claims. The zero
// DropIn sets nothing. node-dns writes it before it removes the file, while systemd-resolved drops
// the old settings.
type DropIn struct {
	Server  netip.Addr
	Domains []string // as in Domains=, search domains first
}

// parseDropIn parses a file that Bytes wrote; ok is false for any other file.
func parseDropIn(text []byte) (d DropIn, ok bool) {
	var c ResolvedConf
	c.read("", string(text))
	if len(c.Servers) == 1 {
		d.Server = c.Servers[0].Addr.Addr()
	}
	d.Domains = c.Domains
	return d, slices.Contains(strings.Split(string(text), "\n"), DropInWatermark)
}

// Bytes returns the file. It first clears the settings of earlier files: systemd-resolved merges
// lists, and leaves the first server of DNS= only when that is dead.
func (d DropIn) Bytes() []byte {
	text := DropInWatermark + "\n[Resolve]\n"
	if d.Server.IsValid() {
		text += "DNS=\nDNS=" + d.Server.String() + "\nDomains=\nDomains=" + strings.Join(d.Domains, " ") + "\n"
	}
	return []byte(text)
}
