package nodeconfig

import (
	"net/netip"

	"gopkg.in/yaml.v3"
)

// AllowFrom says who may ask this node. The zero AllowFrom is this host alone.
type AllowFrom struct {
	All      bool           // everyone
	Local    bool           // what is near: the networks of this node's interfaces, of the pods and of the services
	Networks []netip.Prefix // these
}

var asAllowFrom = syntax[AllowFrom]{`"local", "all", IP or IP/BITS`, parseAllowFrom}

func parseAllowFrom(text string) (AllowFrom, error) {
	switch text {
	case "local":
		return AllowFrom{Local: true}, nil
	case "all":
		return AllowFrom{All: true}, nil
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return AllowFrom{Networks: []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}}, nil
	}
	p, err := asPrefix.parse(text)
	if err != nil {
		return AllowFrom{}, err
	}
	return AllowFrom{Networks: []netip.Prefix{p}}, nil
}

// readAllowFrom reads one text, or a list of them that are taken together. An empty list is this host alone. With a fault it
// is what it is without the key: pods are to have DNS.
func readAllowFrom(r *reader, v value) AllowFrom {
	parts, ok := []value{v}, true
	if v.node.Kind != yaml.ScalarNode {
		parts, ok = r.list(v, maxPrefixes, asAllowFrom.expected+", or a list of these")
	}
	var allow AllowFrom
	for _, part := range parts {
		a, isOne := one(r, part, asAllowFrom)
		ok = ok && isOne
		allow.All, allow.Local = allow.All || a.All, allow.Local || a.Local
		allow.Networks = append(allow.Networks, a.Networks...)
	}
	if !ok {
		return defaults().AllowFrom
	}
	return allow
}
