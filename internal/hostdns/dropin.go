package hostdns

import (
	"net/netip"
	"slices"
	"strings"
)

// DropInWatermark is the comment line by which a drop-in is ours.
const DropInWatermark = "# systemd-resolved asks this node: node-dns; undo: origin-dns-dispatcher restore"

// DropIn has systemd-resolved ask one nameserver for all that no link claims. The zero DropIn is one that asks for nothing:
// it is what stands in the file while systemd-resolved is told to forget it.
type DropIn struct {
	Server  netip.Addr
	Domains []string // as Domains= has them, the search domains first
}

// ParseDropIn reads a file that Bytes wrote; ok is false for anybody else's.
func ParseDropIn(text []byte) (d DropIn, ok bool) {
	var c ResolvedConf
	c.read("", string(text))
	if len(c.Servers) == 1 {
		d.Server = c.Servers[0].Addr.Addr()
	}
	d.Domains = c.Domains
	return d, slices.Contains(strings.Split(string(text), "\n"), DropInWatermark)
}

// Bytes is the file. What the files before it have set is forgotten first: systemd-resolved collects lists, and goes from
// one server of DNS= to the next only when the first is dead.
func (d DropIn) Bytes() []byte {
	text := DropInWatermark + "\n[Resolve]\n"
	if d.Server.IsValid() {
		text += "DNS=\nDNS=" + d.Server.String() + "\nDomains=\nDomains=" + strings.Join(d.Domains, " ") + "\n"
	}
	return []byte(text)
}
