package nm

import (
	"context"
	"slices"

	gonm "github.com/Wifx/gonetworkmanager/v3"
	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A device has the data that DnsManager lacks about an interface.
type device struct {
	iface string
	// asks4 and asks6 report whether has4 and has6 matter.
	asks4, asks6 bool

	path             dbus.ObjectPath // "" if NetworkManager has no such device
	active, ip4, ip6 dbus.ObjectPath
	connection       string              // the active profile's name
	has4, has6       bool                // whether the profile has the domain "~."
	static           []nameserver.Server // from the profile
}

func devicesOf(configs []DNSConfig) []device {
	var devices []device
	for _, c := range configs {
		if c.Interface == "" || c.Global {
			continue
		}
		i := slices.IndexFunc(devices, func(d device) bool { return d.iface == c.Interface })
		if i < 0 {
			i, devices = len(devices), append(devices, device{iface: c.Interface})
		}
		if len(c.Nameservers) > 0 && !c.wildcard() {
			is4 := c.Nameservers[0].Addr.Addr().Is4()
			devices[i].asks4, devices[i].asks6 = devices[i].asks4 || is4, devices[i].asks6 || !is4
		}
	}
	return devices
}

// maxDevices is the number of devices read at a time, with at most 4 unanswered calls each: the bus
// rejects the connection's 129th with LimitsExceeded (max_replies_per_connection, dbus-daemon
// 1.14).
const maxDevices = 16

// addDevices completes the configurations.
func (c *Client) addDevices(ctx context.Context, configs []DNSConfig) error {
	for devices := range slices.Chunk(devicesOf(configs), maxDevices) {
		if err := c.readDevices(ctx, devices); err != nil {
			return err
		}
		for _, d := range devices {
			d.complete(configs)
		}
	}
	return nil
}

// readDevices fills the devices, in three round trips. A device or a profile that disappears
// meanwhile leaves zero values.
func (c *Client) readDevices(ctx context.Context, devices []device) error {
	var find, read, last round
	for i := range devices {
		d := &devices[i]
		find.add(c.ask(ctx, gonm.NetworkManagerObjectPath, gonm.NetworkManagerGetDeviceByIpIface, d.iface), func(body []any) {
			d.path = first[dbus.ObjectPath](body)
		})
	}
	if err := find.wait(ctx); err != nil {
		return err
	}
	for i := range devices {
		d := &devices[i]
		if !isObject(d.path) {
			continue
		}
		read.add(c.askProperty(ctx, d.path, gonm.DevicePropertyActiveConnection), func(body []any) {
			d.active = property[dbus.ObjectPath](body)
		})
		if d.asks4 {
			read.add(c.askProperty(ctx, d.path, gonm.DevicePropertyIp4Config), func(body []any) { d.ip4 = property[dbus.ObjectPath](body) })
		}
		if d.asks6 {
			read.add(c.askProperty(ctx, d.path, gonm.DevicePropertyIp6Config), func(body []any) { d.ip6 = property[dbus.ObjectPath](body) })
		}
		last.add(c.ask(ctx, d.path, gonm.DeviceGetAppliedConnection, uint32(0)), func(body []any) {
			d.static = staticServers(first[map[string]map[string]dbus.Variant](body), d.iface)
		})
	}
	if err := read.wait(ctx); err != nil {
		return err
	}
	for i := range devices {
		d := &devices[i]
		last.add(c.askProperty(ctx, d.active, gonm.ActiveConnectionPropertyId), func(body []any) {
			d.connection = printable(property[string](body), maxName)
		})
		last.add(c.askProperty(ctx, d.ip4, gonm.IP4ConfigPropertySearches), func(body []any) { d.has4 = hasWildcard(property[[]string](body)) })
		last.add(c.askProperty(ctx, d.ip6, gonm.IP6ConfigPropertySearches), func(body []any) { d.has6 = hasWildcard(property[[]string](body)) })
	}
	return last.wait(ctx)
}

// complete adds the device's data to its configurations.
func (d device) complete(configs []DNSConfig) {
	for i := range configs {
		config := &configs[i]
		if config.Interface != d.iface || config.Global {
			continue
		}
		config.Connection = d.connection
		config.setStatic(d.static)
		if len(config.Nameservers) == 0 || config.wildcard() {
			continue
		}
		if is4 := config.Nameservers[0].Addr.Addr().Is4(); is4 && d.has4 || !is4 && d.has6 {
			config.Domains = append(config.Domains, Domain{Name: dnsname.Root(), RoutingOnly: true})
		}
	}
}
