package nodeconfig

import "net/netip"

// AllowFrom lists the clients that may query this node. The zero AllowFrom allows only this host.
type AllowFrom struct {
	All      bool           // every client
	Local    bool           // nearby clients: the networks of this node's interfaces, of the pods and of the services
	Networks []netip.Prefix // these networks
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

// readAllowFrom reads one string, or a list of strings that are combined. An empty list allows only
// this host. A faulty value counts as a missing key, so that pods keep their DNS.
func readAllowFrom(r *reader, v value, c *Config) {
	c.AllowFrom = AllowFrom{}
	for _, a := range oneOrMany(r, v, maxPrefixes, asAllowFrom) {
		c.AllowFrom.All, c.AllowFrom.Local = c.AllowFrom.All || a.All, c.AllowFrom.Local || a.Local
		c.AllowFrom.Networks = append(c.AllowFrom.Networks, a.Networks...)
	}
}
