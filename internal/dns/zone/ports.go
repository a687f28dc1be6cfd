package zone

// portFilter selects the ports of a name. The zero value matches all.
type portFilter struct {
	kind     portKind
	name     []byte // of namedPort
	protocol Protocol
}

type portKind uint8

const (
	everyPort  portKind = iota // all, including unnamed ones
	noPort                     // the name is not the name of a port; SkyDNS gives one SRV record with port 0 for such a name
	ofProtocol                 // _PROTOCOL: all named ports
	namedPort                  // _PORT._PROTOCOL; `_` alone is the unnamed port
	badPort                    // looks like a port but is invalid
)

// ofPort reports whether the k labels before a name are those of a port: the last one begins with
// an underscore, as no hostname does.
func (l *lookup) ofPort(k int) bool { return k > 0 && l.label(k - 1)[0] == '_' }

// ports parses those labels.
func (l *lookup) ports(k int) portFilter {
	protocol, known := protocolOf(l.label(k - 1))
	switch {
	case !known || k > 2 || l.label(0)[0] != '_':
		return portFilter{kind: badPort}
	case k == 1:
		return portFilter{kind: ofProtocol, protocol: protocol}
	}
	return portFilter{kind: namedPort, name: l.label(0)[1:], protocol: protocol}
}

func protocolOf(label []byte) (Protocol, bool) {
	switch string(label) {
	case "_tcp":
		return TCP, true
	case "_udp":
		return UDP, true
	case "_sctp":
		return SCTP, true
	}
	return 0, false
}

func (f *portFilter) matches(p Port) bool {
	switch f.kind {
	case everyPort:
		return true
	case ofProtocol:
		return p.Name != "" && p.Protocol == f.protocol
	case namedPort:
		return p.Protocol == f.protocol && p.Name == string(f.name)
	}
	return false
}

// any reports whether one of the ports matches.
func (f *portFilter) any(ports []Port) bool {
	for _, p := range ports {
		if f.matches(p) {
			return true
		}
	}
	return false
}

// isBetween reports whether a name is an empty non-terminal: _PROTOCOL, except in SkyDNS, where it
// stands for all ports of the protocol.
func (l *lookup) isBetween(f portFilter) bool { return f.kind == ofProtocol && !l.cfg.isOpenShift }
