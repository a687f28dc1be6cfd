package dnsmasqconf

import "fmt"

// Ports are the UDP ports that upstreams are asked from, the first and the last. The zero value: the files say none.
type Ports struct{ Low, High uint16 }

// The bounds of min-port and max-port where the files say none. Ports below 1024 are those of services: a min-port below adds
// none of these.
const (
	lowestSource  = 1024
	highestSource = 65535
)

// fewestSources are as many as add 10 bits to the 16 of a message's ID, which whoever forges a response must guess. dnsmasq
// goes down to one (CVE-2008-1447).
const fewestSources = 1024

// checkPorts puts min-port and max-port together. A min-port of 1024, which OpenShift set on every node, says nothing: what
// the kernel picks is never below (ip_local_port_range does not overlap the ports below ip_unprivileged_port_start,
// ip-sysctl.rst).
func (l *loader) checkPorts() {
	low := max(l.config.Number("min-port"), lowestSource)
	high := l.config.Number("max-port")
	option := "max-port"
	if high == Unset {
		high, option = highestSource, "min-port"
	}
	switch {
	case low == lowestSource && high == highestSource:
	case high-low+1 < fewestSources:
		place := l.config.Sources[option]
		l.at = position{place.File, place.Line, 1}
		l.fault(option, fmt.Sprintf("at least %d source ports, as responses are easy to forge behind fewer", fewestSources), fmt.Sprintf("%d to %d", low, high))
	default:
		l.config.Ports = Ports{uint16(low), uint16(high)}
	}
}
