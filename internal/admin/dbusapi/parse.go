package dbusapi

import (
	"fmt"
	"strings"

	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

// refuse says what a caller is told of arguments that are not taken over.
func refuse(format string, args ...any) error {
	return dnsmasqconf.Refusal(fmt.Sprintf(format, args...))
}

// errNoArguments is libdbus's word for a call without arguments, as dnsmasq hands it on.
var errNoArguments = refuse("Failed to initialize dbus message iter")

// parseDomainServers reads the argument of SetDomainServers: texts as of dnsmasq's server= option.
func parseDomainServers(body []any) ([]dnsmasqconf.Rule, error) {
	if len(body) == 0 {
		return nil, errNoArguments
	}
	texts, ok := body[0].([]string)
	if !ok {
		return nil, refuse("Expected array of string")
	}
	return dnsmasqconf.ParseRules(texts)
}

// parseServersEx reads the argument of SetServersEx: lists of an address and its domains.
func parseServersEx(body []any) ([]dnsmasqconf.Rule, error) {
	if len(body) == 0 {
		return nil, errNoArguments
	}
	lists, ok := body[0].([][]string)
	if !ok {
		if signature := dbus.SignatureOf(body[0]).String(); strings.HasPrefix(signature, "aa") {
			return nil, refuse("Expected inner array of strings")
		}
		return nil, refuse("Expected array of string arrays")
	}
	var rules []dnsmasqconf.Rule
	for _, list := range lists {
		switch {
		case len(list) == 0:
			return nil, refuse("Expected IP address")
		case list[0] == "":
			return nil, refuse("Empty IP address")
		}
		domains := list[1:]
		if len(domains) == 0 {
			domains = []string{""}
		}
		more, err := dnsmasqconf.NewRules(list[0], domains)
		if err != nil {
			return nil, err
		}
		if rules = append(rules, more...); len(rules) > dnsmasqconf.MaxRules {
			return nil, dnsmasqconf.ErrTooMany
		}
	}
	return rules, nil
}
