package nm

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"

	gonm "github.com/Wifx/gonetworkmanager/v3"
	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// askProfiles starts reading the active profiles of the devices that have nameservers. Its result
// is for answerProfiles. It does not wait for a round trip.
func (c *Client) askProfiles(ctx context.Context, s *Snapshot, devices []*deviceState) []*dbus.Call {
	calls := make([]*dbus.Call, len(devices))
	for i, d := range devices {
		if slices.ContainsFunc(s.Configs, d.has) {
			object := c.conn.Object(gonm.NetworkManagerInterface, d.path)
			calls[i] = object.GoWithContext(ctx, gonm.DeviceGetAppliedConnection, dbus.FlagNoAutoStart, make(chan *dbus.Call, 1), uint32(0))
		}
	}
	return calls
}

// answerProfiles reads which nameservers the profiles set. It skips devices that no longer exist
// and profiles that we may not read, because their permissions name users.
func (c *Client) answerProfiles(ctx context.Context, calls []*dbus.Call, devices []*deviceState) error {
	for i, call := range calls {
		if call == nil {
			continue
		}
		call = <-call.Done
		err := asError(ctx, call.Err)
		var settings map[string]map[string]dbus.Variant
		var version uint64
		var refused dbus.Error
		switch {
		case err == nil && call.Store(&settings, &version) == nil:
			devices[i].static = staticServers(settings, devices[i].IPInterface)
		case err != nil && (errors.Is(err, ErrNotRunning) || !errors.As(err, &refused)):
			return err
		}
	}
	return nil
}

// staticServers returns a profile's nameservers: from dns-data, which has strings (1.42), else from
// dns, which has addresses in wire byte order.
func staticServers(settings map[string]map[string]dbus.Variant, iface string) []nameserver.Server {
	l := lists{zone: iface}
	for _, family := range []string{"ipv4", "ipv6"} {
		p := properties(settings[family])
		if texts := get[[]string](p, "dns-data"); len(texts) > 0 {
			l.addServers(texts, false)
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
