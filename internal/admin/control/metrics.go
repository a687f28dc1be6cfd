package control

import (
	"net/netip"
	"slices"
)

// Metrics says where the daemon serves its Prometheus metrics.
type Metrics struct {
	Address string `json:"address"` // empty if they are disabled
	Error   string `json:"error,omitempty"`
}

func (m Metrics) text() string {
	switch {
	case m.Address == "":
		return ""
	case m.Error != "":
		return "metrics " + m.Address + " FAILED (" + m.Error + ")"
	}
	return "metrics " + m.Address
}

// IsOpen reports whether other hosts can reach the metrics.
func (m Metrics) IsOpen() bool {
	at, err := netip.ParseAddrPort(m.Address)
	return err == nil && !at.Addr().Unmap().IsLoopback()
}

// Unready returns the reasons why the daemon is not ready: an address is not bound, there is no
// upstream server, or an end-to-end question fails. It is empty if the daemon is ready.
func (s Status) Unready() []string {
	var reasons []string
	switch {
	case slices.ContainsFunc(s.Listeners, func(l Listener) bool { return !l.Spare }):
	case s.Cluster.Domain == "":
		reasons = append(reasons, "not listening because the cluster domain is unknown")
	default:
		reasons = append(reasons, "not listening because this node has no address yet")
	}
	for _, l := range s.Listeners {
		if l.IsFailed() {
			reasons = append(reasons, "not listening on "+l.Address+": "+l.Error)
		}
	}
	if !slices.ContainsFunc(s.Routes, func(r Route) bool { return r.Domain == "." }) {
		reasons = append(reasons, "no upstream nameserver is known")
	}
	return append(reasons, s.Failing...)
}
