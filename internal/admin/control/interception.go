package control

import (
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/intercept"
)

// Interception says which pods' queries come to this node although they are sent to other
// addresses.
type Interception struct {
	Wanted    []string      `json:"wanted"` // addresses of the key intercept that this host does not have itself
	Addresses []Intercepted `json:"addresses"`
	// Owned reports whether the kernel removes the rules if the helper is killed. Without it, the
	// helper's unit does. Cilium has no such rules.
	Owned bool `json:"owned"`
	// Cilium reports whether Cilium brings the queries to this pod while it is ready, instead of
	// the helper.
	Cilium bool   `json:"cilium,omitempty"`
	Why    string `json:"why,omitempty"` // why nothing is intercepted; empty if that depends on the address
}

// Intercepted is one address.
type Intercepted struct {
	Address string    `json:"address"`
	On      bool      `json:"on"`
	Mode    string    `json:"mode,omitempty"` // a value of intercept.Mode
	Since   time.Time `json:"since,omitzero"` // when On or Mode changed last
	Why     string    `json:"why,omitempty"`  // why On is false
}

// IsStandby reports whether NodeLocal DNSCache has the address. Queries to it come here when it
// leaves this node.
func (a Intercepted) IsStandby() bool { return a.On && a.Mode == string(intercept.Standby) }

// Off returns the wanted addresses that are not intercepted, each with the reason.
func (i *Interception) Off() []Intercepted {
	var off []Intercepted
	for _, a := range i.Addresses {
		if !a.On {
			off = append(off, a)
		}
	}
	return off
}

// Missing returns why nothing is intercepted, or "" if that depends on the address.
func (i *Interception) Missing() string {
	if i.Cilium && i.Why == "" && len(i.Wanted) == 0 {
		return "the Kubernetes API has no DNS Service with a known name"
	}
	return i.Why
}

// Subject names the wanted addresses. With Cilium, they are unknown before the cluster is known.
func (i *Interception) Subject() string {
	if len(i.Wanted) == 0 {
		return "the cluster's DNS Service"
	}
	return strings.Join(i.Wanted, ", ")
}

func (i *Interception) text(now time.Time) string {
	if why := i.Missing(); why != "" {
		return i.Subject() + " NOT intercepted: " + why
	}
	var words []string
	for _, a := range i.Addresses {
		switch {
		case a.IsStandby():
			words = append(words, a.Address+" answered by NodeLocal DNSCache until it leaves this node")
		case a.On && i.Cilium:
			words = append(words, a.Address+" redirected by Cilium for "+age(now.Sub(a.Since)))
		case a.On:
			words = append(words, a.Address+" intercepted for "+age(now.Sub(a.Since)))
		default:
			words = append(words, a.Address+" NOT intercepted: "+a.Why)
		}
	}
	return strings.Join(words, "\n")
}
