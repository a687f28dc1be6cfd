// Package nm is all that NetworkManager says: the Event it runs a dispatcher
// script with, the Snapshot of what it knows now, over D-Bus, and the Watch for
// the changes that it announces with no event.
//
// It is apart from netstate because NetworkManager and the kernel may differ,
// and each is right about its own things: NetworkManager knows the nameservers
// and the domains of an interface, the kernel which interface carries the
// default route. It is the only package that speaks D-Bus to NetworkManager.
package nm

import (
	"errors"
	"fmt"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// ErrArguments means that a program was not run as NetworkManager runs its
// dispatcher scripts: with an interface and an action.
var ErrArguments = errors.New("want 2 arguments, an interface and an action")

// An Event is what a dispatcher script is told: its two arguments and its
// environment (man NetworkManager-dispatcher). It is a hint that something may
// have changed, not the state: with 1.42 and 1.52 the nameservers of a reapply,
// and with 1.52 those of a changed lease, are the ones from before; the first
// dhcp4-change of an activation has none at all; "dns-change" never has any.
//
// All texts come from outside and are bounded and printable. The zero Event is
// no event.
type Event struct {
	// Interface is the device's control interface, and IPInterface the one that
	// has the addresses; they differ on modems. Without the variables of old
	// versions both are the first argument. Both are "" for the actions that
	// have no interface (argument "none" or "").
	Interface, IPInterface string
	// Action is the second argument, such as "up" or "dhcp4-change".
	Action string
	// ConnectionID is the profile's name as the admin chose it: any text.
	ConnectionID, ConnectionUUID string
	// Nameservers are those of the device, IPv4 before IPv6, at most 64. From
	// 1.52 there can be nameservers over TLS among them.
	Nameservers []nameserver.Server
	// Domains are the device's domains without a final dot. NetworkManager leaves
	// the search list out of the variable: this is the DHCP domain at most.
	Domains []string
	// VPN is what a VPN brought, for vpn-up and vpn-down; its nameservers are
	// never the device's. The zero VPN is none.
	VPN VPN
	// Invalid are the words refused as nameservers, and InvalidDomains those
	// refused as domains: cut to 64 bytes and quoted, at most 64 each.
	Invalid, InvalidDomains []string
	// Truncated means that a bound cut something off.
	Truncated bool
}

// A VPN is the VPN part of an Event.
type VPN struct {
	// IPInterface is the tunnel's interface, such as "tun0".
	IPInterface string
	Nameservers []nameserver.Server
	Domains     []string
}

// ParseEvent reads the arguments after the program's name, and the environment
// as os.Environ returns it. Variables that are missing, empty or wrong are no
// error: whatever a DHCP server put into them comes out as a valid value or in
// Invalid. The only error is ErrArguments.
func ParseEvent(argv, environ []string) (Event, error) {
	if len(argv) != 2 {
		return Event{}, fmt.Errorf("parsing dispatcher event: %w, got %d", ErrArguments, len(argv))
	}
	env := variables(environ)
	e := Event{
		Interface:      firstOf(argument(env["DEVICE_IFACE"]), argument(argv[0])),
		Action:         printable(argv[1], maxName),
		ConnectionID:   printable(env["CONNECTION_ID"], maxName),
		ConnectionUUID: printable(env["CONNECTION_UUID"], maxName),
	}
	e.IPInterface = firstOf(argument(env["DEVICE_IP_IFACE"]), e.Interface)
	e.VPN.IPInterface = argument(env["VPN_IP_IFACE"])
	e.readLists(env)
	return e, nil
}

func (e *Event) readLists(env map[string]string) {
	device := lists{zone: e.IPInterface}
	device.addServers(words(env["IP4_NAMESERVERS"]))
	device.addServers(words(env["IP6_NAMESERVERS"]))
	device.addDomains(words(env["IP4_DOMAINS"]))
	device.addDomains(words(env["IP6_DOMAINS"]))

	// The VPN's lists have bounds of their own, and share the refused words.
	vpn := lists{zone: e.VPN.IPInterface, invalid: device.invalid, invalidDomains: device.invalidDomains}
	vpn.addServers(words(env["VPN_IP4_NAMESERVERS"]))
	vpn.addServers(words(env["VPN_IP6_NAMESERVERS"]))
	vpn.addDomains(words(env["VPN_IP4_DOMAINS"]))
	vpn.addDomains(words(env["VPN_IP6_DOMAINS"]))

	e.Nameservers, e.Domains = device.servers, searchNames(device.domains)
	e.VPN.Nameservers, e.VPN.Domains = vpn.servers, searchNames(vpn.domains)
	e.Invalid, e.InvalidDomains = vpn.invalid, vpn.invalidDomains
	e.Truncated = device.truncated || vpn.truncated
}

// Matters reports whether the host's DNS configuration can differ after the
// event. A pre-up or pre-down comes before the change, and NetworkManager waits for
// its scripts; device-add and device-delete (1.46) ask a script to make a device;
// what an action of a later version changes is seen over D-Bus.
func (e Event) Matters() bool {
	switch e.Action {
	case "up", "down", "reapply", "dhcp4-change", "dhcp6-change", "dns-change",
		"vpn-up", "vpn-down", "connectivity-change", "hostname":
		return true
	}
	return false
}

// variables picks the variables that ParseEvent reads. Of a name that stands
// twice the first counts, as with os.Getenv.
func variables(environ []string) map[string]string {
	env := make(map[string]string, 16)
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if _, seen := env[name]; !seen && isRead(name) {
			env[name] = value
		}
	}
	return env
}

func isRead(name string) bool {
	switch name {
	case "DEVICE_IFACE", "DEVICE_IP_IFACE", "VPN_IP_IFACE", "CONNECTION_ID", "CONNECTION_UUID",
		"IP4_NAMESERVERS", "IP6_NAMESERVERS", "IP4_DOMAINS", "IP6_DOMAINS",
		"VPN_IP4_NAMESERVERS", "VPN_IP6_NAMESERVERS", "VPN_IP4_DOMAINS", "VPN_IP6_DOMAINS":
		return true
	}
	return false
}

// argument is an interface's name; "none" stands for no interface in the event
// "hostname", where the manual promises "".
func argument(name string) string {
	if name == "none" {
		return ""
	}
	return printable(name, maxName)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
