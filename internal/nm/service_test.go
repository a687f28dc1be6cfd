package nm

import (
	"fmt"
	"maps"
	"sync"

	gonm "github.com/Wifx/gonetworkmanager/v3"
	"github.com/godbus/dbus/v5"
)

// A host maps paths and interfaces to the properties that a service returns. The interface profile
// holds a device's answer to GetAppliedConnection: its settings, each with its properties.
type host map[dbus.ObjectPath]map[string]properties

const profile = "profile"

// setProfile gives a device a profile with these ipv4 and ipv6 settings.
func (h host) setProfile(path dbus.ObjectPath, ipv4, ipv6 properties) {
	h[path][profile] = properties{"ipv4": dbus.MakeVariant(entry(ipv4)), "ipv6": dbus.MakeVariant(entry(ipv6))}
}

// set replaces one property, by its name in gonetworkmanager.
func (h host) set(path dbus.ObjectPath, iface, property string, value any) {
	h[path][iface][member(property)] = dbus.MakeVariant(value)
}

func propertiesOf(pairs ...any) properties {
	p := properties{}
	for i := 0; i < len(pairs); i += 2 {
		p[member(pairs[i].(string))] = dbus.MakeVariant(pairs[i+1])
	}
	return p
}

type entry = map[string]dbus.Variant

const base dbus.ObjectPath = gonm.NetworkManagerObjectPath

// simpleHost is a dual-stack interface as NetworkManager 1.42.4 shows it.
func simpleHost() host {
	return host{
		gonm.DnsManagerObjectPath: {gonm.DnsManagerInterface: propertiesOf(
			gonm.DnsManagerPropertyMode, "none",
			gonm.DnsManagerPropertyRcManager, "unmanaged",
			gonm.DnsManagerPropertyConfiguration, []entry{
				entry(propertiesOf(
					"nameservers", []string{"10.77.0.53", "10.77.0.54"}, "domains", []string{"example.test"},
					"interface", "eth0", "priority", int32(100), "vpn", false)),
				entry(propertiesOf(
					"nameservers", []string{"fe80::53"}, "interface", "eth0", "priority", int32(100), "vpn", false)),
			},
		)},
		base: {gonm.NetworkManagerInterface: propertiesOf(
			gonm.NetworkManagerPropertyVersion, "1.42.4",
			gonm.NetworkManagerPropertyState, uint32(gonm.NmStateConnectedGlobal),
			gonm.NetworkManagerPropertyPrimaryConnection, base+"/ActiveConnection/2",
			gonm.NetworkManagerPropertyActiveConnections, []dbus.ObjectPath{base + "/ActiveConnection/2"},
		)},
		base + "/ActiveConnection/2": {gonm.ActiveConnectionInterface: propertiesOf(
			gonm.ActiveConnectionPropertyId, "Wired connection 1",
			gonm.ActiveConnectionPropertyUuid, "2a92500f-48c5-4bc5-b85d-74a2d3477883",
			gonm.ActiveConnectionPropertyVpn, false,
			gonm.ActiveConnectionPropertyDevices, []dbus.ObjectPath{base + "/Devices/2"},
		)},
		base + "/Devices/2": {gonm.DeviceInterface: deviceProperties("eth0", base+"/IP4Config/2", base+"/IP6Config/2")},
		base + "/IP4Config/2": {gonm.IP4ConfigInterface: propertiesOf(
			gonm.IP4ConfigPropertyAddressData, []entry{
				entry(propertiesOf("address", "10.77.0.140", "prefix", uint32(24))),
				entry(propertiesOf("address", "10.77.0.140", "prefix", uint32(4000))),
			},
			gonm.IP4ConfigPropertyGateway, "10.77.0.1",
		)},
		base + "/IP6Config/2": {gonm.IP6ConfigInterface: propertiesOf(
			gonm.IP6ConfigPropertyAddressData, []entry{entry(propertiesOf("address", "fd77::9", "prefix", uint32(64)))},
			gonm.IP6ConfigPropertyGateway, "fd77::1",
		)},
	}
}

func deviceProperties(iface string, ip4, ip6 dbus.ObjectPath) properties {
	return propertiesOf(
		gonm.DevicePropertyInterface, iface,
		gonm.DevicePropertyIpInterface, iface,
		gonm.DevicePropertyManaged, true,
		gonm.DevicePropertyState, uint32(gonm.NmDeviceStateActivated),
		gonm.DevicePropertyIp4Config, ip4,
		gonm.DevicePropertyIp6Config, ip6,
	)
}

// A service owns NetworkManager's name on the bus in the environment, and answers GetAll. A test
// may set onGetAll, which the service calls before each answer.
type service struct {
	conn *dbus.Conn

	// mu guards the fields below.
	mu       sync.Mutex
	host     host
	onGetAll func(path dbus.ObjectPath)
}

func startService(h host) (*service, error) {
	conn, err := dbus.ConnectSystemBus()
	if err != nil {
		return nil, err
	}
	s := &service{conn: conn, host: h}
	for path := range h {
		if err := conn.Export(object{s, path}, path, "org.freedesktop.DBus.Properties"); err != nil {
			return nil, err
		}
		if err := conn.Export(object{s, path}, path, gonm.DeviceInterface); err != nil {
			return nil, err
		}
	}
	reply, err := conn.RequestName(gonm.NetworkManagerInterface, dbus.NameFlagDoNotQueue)
	if err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		return nil, fmt.Errorf("requesting NetworkManager's name: %v, %w", reply, err)
	}
	return s, nil
}

// stop leaves the bus and so gives up the name.
func (s *service) stop() { s.conn.Close() }

func (s *service) setOnGetAll(f func(path dbus.ObjectPath)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onGetAll = f
}

func (s *service) changed() error { return emitChanged(s.conn) }

func emitChanged(conn *dbus.Conn) error {
	return conn.Emit(gonm.DnsManagerObjectPath, "org.freedesktop.DBus.Properties.PropertiesChanged",
		gonm.DnsManagerInterface, entry{"Configuration": dbus.MakeVariant([]entry{})}, []string{})
}

// An object is one path of a service.
type object struct {
	service *service
	path    dbus.ObjectPath
}

// GetAppliedConnection returns the settings of a device.
func (o object) GetAppliedConnection(uint32) (map[string]entry, uint64, *dbus.Error) {
	o.service.mu.Lock()
	defer o.service.mu.Unlock()
	settings, ok := o.service.host[o.path][profile]
	if !ok {
		return nil, 0, dbus.NewError(gonm.DeviceInterface+".NotActive", []any{"no applied connection"})
	}
	all := map[string]entry{}
	for name, value := range settings {
		all[name] = value.Value().(entry)
	}
	return all, 1, nil
}

func (o object) GetAll(iface string) (entry, *dbus.Error) {
	o.service.mu.Lock()
	hook := o.service.onGetAll
	p, ok := o.service.host[o.path][iface]
	p = maps.Clone(p)
	o.service.mu.Unlock()
	if hook != nil {
		hook(o.path)
	}
	if !ok {
		return nil, dbus.NewError("org.freedesktop.DBus.Error.UnknownInterface", []any{"no such interface"})
	}
	return entry(p), nil
}
