package nm

import (
	"context"
	"errors"
	"slices"

	gonm "github.com/Wifx/gonetworkmanager/v3"
	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A deviceState is a Device while it is being read.
type deviceState struct {
	Device
	path       dbus.ObjectPath
	connection activeConnection
	activated  bool // and managed
	ip4, ip6   dbus.ObjectPath
	// wildcard4 and wildcard6 report whether the profile has the domain "~.".
	wildcard4, wildcard6 bool
	static               []nameserver.Server // from the profile
}

// has reports whether a configuration belongs to the device.
func (d *deviceState) has(c DNSConfig) bool { return c.Interface == d.IPInterface && !c.Global }

func (c *Client) readDevices(ctx context.Context, devices []*deviceState) error {
	var targets []target
	for _, d := range devices {
		targets = append(targets, target{d.path, gonm.DeviceInterface})
	}
	answers, err := c.askEach(ctx, targets)
	if err != nil {
		return err
	}
	for i, p := range answers {
		if p != nil {
			devices[i].decode(p)
		}
	}
	return nil
}

func (d *deviceState) decode(p properties) {
	d.Interface = printable(get[string](p, gonm.DevicePropertyInterface), maxName)
	d.IPInterface = firstOf(printable(get[string](p, gonm.DevicePropertyIpInterface), maxName), d.Interface)
	d.ConnectionID, d.ConnectionUUID = d.connection.id, d.connection.uuid
	d.activated = get[bool](p, gonm.DevicePropertyManaged) &&
		gonm.NmDeviceState(get[uint32](p, gonm.DevicePropertyState)) == gonm.NmDeviceStateActivated
	d.ip4 = get[dbus.ObjectPath](p, gonm.DevicePropertyIp4Config)
	d.ip6 = get[dbus.ObjectPath](p, gonm.DevicePropertyIp6Config)
}

func (c *Client) readAddresses(ctx context.Context, devices []*deviceState) error {
	var targets []target
	for _, d := range devices {
		targets = append(targets, target{d.ip4, gonm.IP4ConfigInterface}, target{d.ip6, gonm.IP6ConfigInterface})
	}
	answers, err := c.askEach(ctx, targets)
	if err != nil {
		return err
	}
	for i, d := range devices {
		addresses4, gateway4 := decodeAddresses(answers[2*i])
		addresses6, gateway6 := decodeAddresses(answers[2*i+1])
		d.Addresses = append(addresses4, addresses6...)
		d.Gateway4, d.Gateway6 = gateway4, gateway6
		d.wildcard4 = hasWildcard(get[[]string](answers[2*i], gonm.IP4ConfigPropertySearches))
		d.wildcard6 = hasWildcard(get[[]string](answers[2*i+1], gonm.IP6ConfigPropertySearches))
	}
	return nil
}

type target struct {
	path  dbus.ObjectPath
	iface string
}

// maxInFlight bounds the unanswered calls: the bus rejects the connection's 129th with
// LimitsExceeded (max_replies_per_connection, dbus-daemon 1.14).
const maxInFlight = 64

// askEach queries all targets, 64 in one round trip. The properties of a missing object ("/", or
// one that no longer exists) are nil.
func (c *Client) askEach(ctx context.Context, targets []target) ([]properties, error) {
	answers := make([]properties, 0, len(targets))
	for chunk := range slices.Chunk(targets, maxInFlight) {
		queries := make([]query, len(chunk))
		for i, t := range chunk {
			if t.path.IsValid() && t.path != "/" {
				queries[i] = c.ask(ctx, t.path, t.iface)
			}
		}
		for _, q := range queries {
			p, err := q.answer(ctx)
			var gone dbus.Error
			if err != nil && (errors.Is(err, ErrNotRunning) || !errors.As(err, &gone)) {
				return nil, err
			}
			answers = append(answers, p)
		}
	}
	return answers, nil
}
