package view

import (
	"fmt"
	"net/netip"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// pods is what is known of pods, by their addresses. It says why nothing is known of any.
func (v *View) pods() (known *zone.Snapshot, why string) {
	if why = v.podsDenied(); why == "" && !v.policy().API.Features.AllPods {
		why = v.NoSearch(v.policy())
	}
	if known = v.resolver.Known(); known == nil {
		why = "the Kubernetes API is not watched, or was not read yet"
	}
	return known, why
}

// podAt is the pod that has an address, as NAMESPACE/NAME; "": none is known. A pod with hostNetwork has the node's address, and
// no name here: any process of the node may be the one that asks.
func (v *View) podAt(client netip.Addr) string {
	known, why := v.pods()
	if why != "" {
		return ""
	}
	return known.PodAt(client.Unmap().WithZone(""))
}

// podFilter is a Filter's, of a namespace and of one pod in it; "" stands for any, and nil for every client. A pod that gets another
// address is followed.
func (v *View) podFilter(namespace, pod string) (func(netip.Addr) bool, error) {
	if namespace == "" && pod == "" {
		return nil, nil
	}
	if _, why := v.pods(); why != "" {
		return nil, fmt.Errorf("pods are not known here: %s", why)
	}
	return func(client netip.Addr) bool {
		known, why := v.pods()
		return why == "" && known.IsPod(client, namespace, pod)
	}, nil
}
