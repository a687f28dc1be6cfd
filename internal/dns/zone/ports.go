package zone

// portFilter says which ports a name is of. Its zero value matches all.
type portFilter struct {
	kind     portKind
	name     []byte // of namedPort
	protocol Protocol
}

type portKind uint8

const (
	everyPort  portKind = iota // unnamed ones too
	noPort                     // the name is of none; SkyDNS has one SRV record with port 0 for such a name
	ofProtocol                 // _PROTOCOL: those with a name
	namedPort                  // _PORT._PROTOCOL; `_` alone is the port without a name
	badPort                    // what looks like a port and is none
)

// ofPort says whether the k labels before a name are of a port: the one next to it begins with an underscore, as no
// hostname does.
func (l *lookup) ofPort(k int) bool { return k > 0 && l.label(k - 1)[0] == '_' }

// ports reads those labels.
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

// any says whether one of the ports matches.
func (f *portFilter) any(ports []Port) bool {
	for _, p := range ports {
		if f.matches(p) {
			return true
		}
	}
	return false
}

// isBetween says whether a name is there only because names below it are: _PROTOCOL, when it is not SkyDNS's name of all
// ports of the protocol.
func (l *lookup) isBetween(f portFilter) bool { return f.kind == ofProtocol && !l.cfg.isOpenShift }
