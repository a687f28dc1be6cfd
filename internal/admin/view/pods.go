package view

import (
	"fmt"
	"net/netip"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// pods returns the known pods by address, or the reason why none is known.
func (v *View) pods() (known *zone.Snapshot, why string) {
	if why = v.podsDenied(); why == "" && !v.policy().API.Features.AllPods {
		why = v.NoSearch(v.policy())
	}
	if known = v.resolver.Known(); known == nil {
		why = "the Kubernetes API is not watched or has not been read yet"
	}
	return known, why
}

// podAt returns the pod with an address as NAMESPACE/NAME, or "" if none is known. A pod with
// hostNetwork has the node's address and is not returned, because any process of the node may be
// the client.
func (v *View) podAt(client netip.Addr) string {
	known, why := v.pods()
	if why != "" {
		return ""
	}
	return known.PodAt(client.Unmap().WithZone(""))
}

// podOfAddr is podAt for an address as text. Any other text has no pod.
func (v *View) podOfAddr(client string) string {
	addr, _ := netip.ParseAddr(client) // the zero address has no pod
	return v.podAt(addr)
}

// podFilter returns a filter for a namespace and a pod in it. Empty arguments match anything, and
// nil matches every client. The filter follows a pod whose address changes.
func (v *View) podFilter(namespace, pod string) (func(netip.Addr) bool, error) {
	if namespace == "" && pod == "" {
		return nil, nil
	}
	if _, why := v.pods(); why != "" {
		return nil, fmt.Errorf("pods are unknown on this node: %s", why)
	}
	return func(client netip.Addr) bool {
		known, why := v.pods()
		return why == "" && known.IsPod(client, namespace, pod)
	}, nil
}
