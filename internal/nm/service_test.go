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
		)},
		base + "/ActiveConnection/2": {gonm.ActiveConnectionInterface: propertiesOf(
			gonm.ActiveConnectionPropertyId, "Wired connection 1",
		)},
		base + "/Devices/2":   {gonm.DeviceInterface: deviceProperties("eth0", base+"/ActiveConnection/2", base+"/IP4Config/2", base+"/IP6Config/2")},
		base + "/IP4Config/2": {gonm.IP4ConfigInterface: propertiesOf(gonm.IP4ConfigPropertySearches, []string{"example.test"})},
		base + "/IP6Config/2": {gonm.IP6ConfigInterface: propertiesOf(gonm.IP6ConfigPropertySearches, []string{})},
	}
}

func deviceProperties(iface string, active, ip4, ip6 dbus.ObjectPath) properties {
	return propertiesOf(
		gonm.DevicePropertyIpInterface, iface,
		gonm.DevicePropertyActiveConnection, active,
		gonm.DevicePropertyIp4Config, ip4,
		gonm.DevicePropertyIp6Config, ip6,
	)
}

// find is the path that onAsk gets for GetDeviceByIpIface.
const find = base + "/Devices"

// A service owns NetworkManager's name on the bus in the environment, and answers questions. A test
// may set onAsk, which the service calls before each answer.
type service struct {
	conn *dbus.Conn

	// mu guards the fields below.
	mu    sync.Mutex
	host  host
	onAsk func(path dbus.ObjectPath)
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
		if err := conn.Export(object{s, path}, path, gonm.NetworkManagerInterface); err != nil {
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

func (s *service) setOnAsk(f func(path dbus.ObjectPath)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onAsk = f
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

// GetDeviceByIpIface returns the path of the device with this IP interface.
func (o object) GetDeviceByIpIface(iface string) (dbus.ObjectPath, *dbus.Error) {
	o.service.ask(find)
	o.service.mu.Lock()
	defer o.service.mu.Unlock()
	for path, interfaces := range o.service.host {
		if get[string](interfaces[gonm.DeviceInterface], gonm.DevicePropertyIpInterface) == iface {
			return path, nil
		}
	}
	return "", dbus.NewError(gonm.NetworkManagerInterface+".UnknownDevice", []any{"no device found for the requested iface"})
}

func (o object) Get(iface, property string) (dbus.Variant, *dbus.Error) {
	o.service.ask(o.path)
	o.service.mu.Lock()
	defer o.service.mu.Unlock()
	value, ok := o.service.host[o.path][iface][property]
	if !ok {
		return value, dbus.NewError("org.freedesktop.DBus.Error.InvalidArgs", []any{"no such property"})
	}
	return value, nil
}

func (o object) GetAll(iface string) (entry, *dbus.Error) {
	o.service.ask(o.path)
	o.service.mu.Lock()
	defer o.service.mu.Unlock()
	p, ok := o.service.host[o.path][iface]
	if !ok {
		return nil, dbus.NewError("org.freedesktop.DBus.Error.UnknownInterface", []any{"no such interface"})
	}
	return entry(maps.Clone(p)), nil
}

func (s *service) ask(path dbus.ObjectPath) {
	s.mu.Lock()
	hook := s.onAsk
	s.mu.Unlock()
	if hook != nil {
		hook(path)
	}
}
