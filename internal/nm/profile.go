package nm

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// staticServers returns a profile's nameservers: from dns-data, which has strings (1.42), else from
// dns, which has addresses in wire byte order.
func staticServers(settings map[string]map[string]dbus.Variant, iface string) []nameserver.Server {
	l := lists{zone: iface}
	for _, family := range []string{"ipv4", "ipv6"} {
		p := properties(settings[family])
		if texts := get[[]string](p, "dns-data"); len(texts) > 0 {
			for _, text := range texts {
				l.addServers([]string{withoutName(text)}, false)
			}
			continue
		}
		for _, number := range get[[]uint32](p, "dns") {
			l.addServers([]string{netip.AddrFrom4([4]byte(binary.NativeEndian.AppendUint32(nil, number))).String()}, false)
		}
		for _, octets := range get[[][]byte](p, "dns") {
			addr, _ := netip.AddrFromSlice(octets)
			l.addServers([]string{addr.String()}, false)
		}
	}
	return l.servers
}

// withoutName removes the server name of "ADDRESS#NAME" (man nm-settings-nmcli, ipv4.dns), which is
// for systemd-resolved: DnsManager has the address alone (seen with 1.42.4). A URI keeps its name.
func withoutName(text string) string {
	if strings.Contains(text, "://") {
		return text
	}
	address, _, _ := strings.Cut(text, "#")
	return address
}

// setStatic records which nameservers of a configuration its profile sets, and moves them to the
// front. NetworkManager (1.42.4) already lists them first.
func (c *DNSConfig) setStatic(servers []nameserver.Server) {
	var static, automatic []nameserver.Server
	for _, server := range c.Nameservers {
		if slices.Contains(servers, server) {
			static = append(static, server)
		} else {
			automatic = append(automatic, server)
		}
	}
	c.Static, c.Nameservers = static, append(slices.Clone(static), automatic...)
}

// Mixed are the default upstreams of an interface if some are static and some come from the
// network.
type Mixed struct {
	Interface, Connection string
	Static, Automatic     []nameserver.Server // at least one of each
}

// Mixed returns the Mixed of those interfaces whose servers Upstreams returns as defaults, in the
// same order.
func (s Snapshot) Mixed(defaultInterfaces []string) []Mixed {
	var all []Mixed
	configs := named(s.Configs)
	for i, gives := range givers(configs, defaultInterfaces) {
		c := configs[i]
		if !gives || c.Global {
			continue
		}
		at := slices.IndexFunc(all, func(m Mixed) bool { return m.Interface == c.Interface })
		if at < 0 {
			at, all = len(all), append(all, Mixed{Interface: c.Interface, Connection: c.Connection})
		}
		all[at].Static = appendNew(all[at].Static, c.Static)
		all[at].Automatic = appendNew(all[at].Automatic, c.Nameservers[len(c.Static):])
	}
	return slices.DeleteFunc(all, func(m Mixed) bool { return len(m.Static) == 0 || len(m.Automatic) == 0 })
}
