package nm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	gonm "github.com/Wifx/gonetworkmanager/v3"
	"github.com/godbus/dbus/v5"
)

type properties map[string]dbus.Variant

// get returns the value of a property or dictionary key if it exists and is a T, else the zero T.
// It is for facts shown to the admin, which older or newer versions of NetworkManager may lack.
// name may be one of gonetworkmanager's, with the interface in front.
func get[T any](p properties, name string) T {
	value, _ := p[member(name)].Value().(T)
	return value
}

// need is get for properties that affect decisions: another type is an error. A missing value is
// the zero T.
func need[T any](p properties, name string) (T, error) {
	var zero T
	variant, ok := p[member(name)]
	if !ok {
		return zero, nil
	}
	value, ok := variant.Value().(T)
	if !ok {
		return zero, fmt.Errorf("%w: %s has type %q", ErrAnswer, member(name), variant.Signature())
	}
	return value, nil
}

// first returns the first of the values that a method returned if it is a T, else the zero T.
func first[T any](body []any) T {
	var zero T
	if len(body) == 0 {
		return zero
	}
	value, _ := body[0].(T)
	return value
}

// property returns the value that Properties.Get returned if it is a T, else the zero T.
func property[T any](body []any) T {
	value, _ := first[dbus.Variant](body).Value().(T)
	return value
}

func member(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// decodeConfigs decodes DnsManager's property Configuration, of type aa{sv}.
func decodeConfigs(p properties) ([]DNSConfig, error) {
	entries, err := need[[]map[string]dbus.Variant](p, gonm.DnsManagerPropertyConfiguration)
	if err != nil {
		return nil, err
	}
	if len(entries) > maxList {
		return nil, fmt.Errorf("%w: %d DNS configurations", ErrAnswer, len(entries))
	}
	configs := make([]DNSConfig, 0, len(entries))
	for _, entry := range entries {
		config, err := decodeConfig(entry)
		if err != nil {
			return nil, err
		}
		configs = append(configs, config)
	}
	return configs, nil
}

// decodeConfig decodes one entry. A global one has neither "interface" nor "vpn"
// (_get_global_config_variant), and names a domain that is not searched.
func decodeConfig(entry properties) (DNSConfig, error) {
	iface, err1 := need[string](entry, "interface")
	servers, err2 := need[[]string](entry, "nameservers")
	domains, err3 := need[[]string](entry, "domains")
	priority, err4 := need[int32](entry, "priority")
	vpn, err5 := need[bool](entry, "vpn")
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return DNSConfig{}, err
	}
	_, hasInterface := entry["interface"]
	_, hasVPN := entry["vpn"]
	config := DNSConfig{
		Interface: printable(iface, maxName),
		Global:    !hasInterface && !hasVPN,
		Priority:  int(priority),
		VPN:       vpn,
	}
	lists := lists{zone: config.Interface}
	lists.addServers(servers, false)
	lists.addDomains(domains, false)
	for i := range lists.domains {
		lists.domains[i].RoutingOnly = lists.domains[i].RoutingOnly || config.Global
	}
	config.Nameservers, config.Invalid, config.Domains = lists.servers, lists.invalid, lists.domains
	return config, nil
}

// hasWildcard reports whether a list of search domains contains "~.", which NetworkManager writes
// as "~".
func hasWildcard(searches []string) bool {
	return slices.ContainsFunc(searches, func(word string) bool {
		domain, err := parseDomain(word)
		return err == nil && domain.isWildcard()
	})
}

// stateNames are nmcli's words for the overall state (man nmcli, general status).
var stateNames = map[gonm.NmState]string{
	gonm.NmStateAsleep:          "asleep",
	gonm.NmStateDisconnected:    "disconnected",
	gonm.NmStateDisconnecting:   "disconnecting",
	gonm.NmStateConnecting:      "connecting",
	gonm.NmStateConnectedLocal:  "connected (local only)",
	gonm.NmStateConnectedSite:   "connected (site only)",
	gonm.NmStateConnectedGlobal: "connected",
}

func stateName(state uint32) string {
	if name, ok := stateNames[gonm.NmState(state)]; ok {
		return name
	}
	return "unknown"
}
