// Package nm reads NetworkManager's state: the Event of a dispatcher script, the Snapshot of its
// current state over D-Bus, and a Watch for changes without an event.
//
// It is separate from netstate because NetworkManager and the kernel may differ, and each is right
// about its own data. NetworkManager knows the nameservers and domains of an interface. The kernel
// knows which interface has the default route. This is the only package that speaks D-Bus to
// NetworkManager.
package nm

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// errArguments means that the program was not run as NetworkManager runs a dispatcher script, with
// an interface and an action.
var errArguments = errors.New("expected 2 arguments, an interface and an action")

// An Event is the input of a dispatcher script: two arguments and the environment (man
// NetworkManager-dispatcher). It is a hint that something may have changed, not the state. In 1.42
// and 1.52 a reapply has the previous nameservers, and in 1.52 so does a changed lease. The first
// dhcp4-change of an activation has no nameservers, and neither has any "dns-change".
//
// All texts come from outside; they are bounded and printable. The zero Event is no event.
type Event struct {
	// Interface is the device's control interface, and IPInterface is the one with the addresses.
	// They differ for modems. Old versions lack the variables, so both are the first argument. Both
	// are "" for actions without an interface (argument "none" or "").
	Interface, IPInterface string
	// Action is the second argument, such as "up" or "dhcp4-change".
	Action string
	// ConnectionID is the profile's name, any text that the admin chose.
	ConnectionID, ConnectionUUID string
	// Nameservers are the device's, IPv4 before IPv6, at most 64. From 1.52 on they may include
	// nameservers over TLS.
	Nameservers []nameserver.Server
	// Domains are the device's domains without a final dot. NetworkManager does not put the search
	// list into the variable, so this is at most the DHCP domain.
	Domains []string
	// VPN is the data of a VPN, for vpn-up and vpn-down. Its nameservers are never the device's. It
	// is zero without a VPN.
	VPN VPN
	// Invalid are the words refused as nameservers, and InvalidDomains those refused as domains.
	// Each is cut to 64 bytes and quoted. Each list has at most 64.
	Invalid, InvalidDomains []string
	// Truncated reports whether a limit cut something off.
	Truncated bool
}

// A VPN is the VPN part of an Event.
type VPN struct {
	// IPInterface is the tunnel's interface, such as "tun0".
	IPInterface string
	Nameservers []nameserver.Server
	Domains     []string
}

// ParseEvent parses the arguments after the program's name, and the environment as os.Environ
// returns it. Missing, empty or invalid variables are not errors: whatever a DHCP server put into
// them becomes a valid value or part of Invalid. The only error is errArguments.
func ParseEvent(argv, environ []string) (Event, error) {
	if len(argv) != 2 {
		return Event{}, fmt.Errorf("parsing dispatcher event: %w, got %d", errArguments, len(argv))
	}
	env := variables(environ)
	e := Event{
		Interface:      cmp.Or(argument(env["DEVICE_IFACE"]), argument(argv[0])),
		Action:         printable(argv[1], maxName),
		ConnectionID:   printable(env["CONNECTION_ID"], maxName),
		ConnectionUUID: printable(env["CONNECTION_UUID"], maxName),
	}
	e.IPInterface = cmp.Or(argument(env["DEVICE_IP_IFACE"]), e.Interface)
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

	// The VPN's lists have their own limits, but share the lists of refused words.
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

// Matters reports whether the event can change the host's DNS configuration. A pre-up or pre-down
// comes before the change, and NetworkManager waits for its scripts. device-add and device-delete
// (1.46) ask a script to create a device. Changes by the actions of later versions are seen over
// D-Bus.
func (e Event) Matters() bool {
	switch e.Action {
	case "up", "down", "reapply", "dhcp4-change", "dhcp6-change", "dns-change",
		"vpn-up", "vpn-down", "connectivity-change", "hostname":
		return true
	}
	return false
}

// variables returns the variables that ParseEvent reads. If a name occurs twice, the first one
// counts, as with os.Getenv.
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

// argument returns an interface's name. The event "hostname" has "none" for no interface, although
// the manual says "".
func argument(name string) string {
	if name == "none" {
		return ""
	}
	return printable(name, maxName)
}
