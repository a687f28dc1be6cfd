package nm

import (
	"context"
	"fmt"

	gonm "github.com/Wifx/gonetworkmanager/v3"
	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// Snapshot reads NetworkManager's state in four round trips, regardless of the number of
// interfaces. Each ends with ctx.
//
// Errors match ErrNotRunning, ErrNoBus, ErrAnswer or ctx.Err(). With an error the Snapshot is zero,
// because a part of the nameservers would look like all of them.
func (c *Client) Snapshot(ctx context.Context) (Snapshot, error) {
	s, err := c.snapshot(ctx)
	if err != nil {
		return Snapshot{}, fmt.Errorf("asking NetworkManager: %w", err)
	}
	return s, nil
}

func (c *Client) snapshot(ctx context.Context) (Snapshot, error) {
	dnsQuery := c.ask(ctx, gonm.DnsManagerObjectPath, gonm.DnsManagerInterface)
	managerQuery := c.ask(ctx, gonm.NetworkManagerObjectPath, gonm.NetworkManagerInterface)
	dns, err := dnsQuery.answer(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	manager, err := managerQuery.answer(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{
		Version:   printable(get[string](manager, gonm.NetworkManagerPropertyVersion), maxName),
		State:     stateName(get[uint32](manager, gonm.NetworkManagerPropertyState)),
		Mode:      printable(get[string](dns, gonm.DnsManagerPropertyMode), maxName),
		RcManager: printable(get[string](dns, gonm.DnsManagerPropertyRcManager), maxName),
	}
	if s.Configs, err = decodeConfigs(dns); err != nil {
		return Snapshot{}, err
	}
	if err := c.addDevices(ctx, &s, manager); err != nil {
		return Snapshot{}, err
	}
	return s, nil
}

// addDevices fills Devices and Primary, and completes the configurations.
func (c *Client) addDevices(ctx context.Context, s *Snapshot, manager properties) error {
	active, err := c.activeConnections(ctx, manager)
	if err != nil {
		return err
	}
	var found []*deviceState
	byPath := map[dbus.ObjectPath]*deviceState{}
	for _, connection := range active {
		for _, path := range connection.devices {
			if byPath[path] == nil && !connection.vpn && len(found) < maxList {
				d := &deviceState{path: path, connection: connection}
				byPath[path], found = d, append(found, d)
			}
		}
	}
	if err := c.readDevices(ctx, found); err != nil {
		return err
	}
	profiles := c.askProfiles(ctx, s, found)
	if err := c.readAddresses(ctx, found); err != nil {
		return err
	}
	if err := c.answerProfiles(ctx, profiles, found); err != nil {
		return err
	}
	for _, d := range found {
		s.complete(d)
		if d.activated {
			s.Devices = append(s.Devices, d.Device)
		}
	}
	primary := get[dbus.ObjectPath](manager, gonm.NetworkManagerPropertyPrimaryConnection)
	for _, connection := range active {
		if connection.path == primary && len(connection.devices) > 0 {
			if d := byPath[connection.devices[0]]; d != nil {
				s.Primary = d.IPInterface
			}
		}
	}
	return nil
}

// complete adds the data that DnsManager lacks to a device's configurations.
func (s *Snapshot) complete(d *deviceState) {
	for i := range s.Configs {
		config := &s.Configs[i]
		if !d.has(*config) {
			continue
		}
		config.Connection = d.ConnectionID
		config.setStatic(d.static)
		if len(config.Nameservers) == 0 || config.wildcard() {
			continue
		}
		if is4 := config.Nameservers[0].Addr.Addr().Is4(); is4 && d.wildcard4 || !is4 && d.wildcard6 {
			config.Domains = append(config.Domains, Domain{Name: dnsname.Root(), RoutingOnly: true})
		}
	}
}

// An activeConnection is an org.freedesktop.NetworkManager.Connection.Active.
type activeConnection struct {
	path     dbus.ObjectPath
	id, uuid string
	vpn      bool // its devices are those below the tunnel
	devices  []dbus.ObjectPath
}

func (c *Client) activeConnections(ctx context.Context, manager properties) ([]activeConnection, error) {
	paths := get[[]dbus.ObjectPath](manager, gonm.NetworkManagerPropertyActiveConnections)
	paths = paths[:min(len(paths), maxList)]
	var targets []target
	for _, path := range paths {
		targets = append(targets, target{path, gonm.ActiveConnectionInterface})
	}
	answers, err := c.askEach(ctx, targets)
	if err != nil {
		return nil, err
	}
	var list []activeConnection
	for i, p := range answers {
		if p != nil {
			list = append(list, activeConnection{
				path:    paths[i],
				id:      printable(get[string](p, gonm.ActiveConnectionPropertyId), maxName),
				uuid:    printable(get[string](p, gonm.ActiveConnectionPropertyUuid), maxName),
				vpn:     get[bool](p, gonm.ActiveConnectionPropertyVpn),
				devices: get[[]dbus.ObjectPath](p, gonm.ActiveConnectionPropertyDevices),
			})
		}
	}
	return list, nil
}
