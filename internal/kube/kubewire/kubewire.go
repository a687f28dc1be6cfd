// Package kubewire reads what a Kubernetes API server sends, a LIST or a WATCH, item by item as it arrives, and keeps
// of each object only what DNS needs.
//
// It is apart from cluster, which decides what is asked for and what becomes of it: here nothing asks, waits or
// remembers. The libraries of Kubernetes hold a whole LIST at once, as bytes and as objects with every field: 180 to
// 290 MiB at 10,000 Services and 100,000 endpoints, where reading item by item takes 15.
package kubewire

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// The ways a stream is no answer of an API server; errors match one of them, or come from the reader.
var (
	ErrMalformed = errors.New("malformed answer")
	ErrTooBig    = errors.New("object is too big")
)

// Limits of what one object may hold. etcd takes requests of 1.5 MiB, so no object of a real server comes near.
const (
	maxObject    = 8 << 20
	maxPorts     = 4096
	maxEndpoints = 1 << 16
	maxSubsets   = 4096
	maxItems     = 4 * maxEndpoints // members of all lists of one in JSON: an endpoint has one for itself, and one for its address
	maxLabel     = 63               // octets of one label, of a name or of an object: none is longer
)

// Kind is a kind of object.
type Kind uint8

// The kinds of object that DNS needs.
const (
	Services       Kind = iota // core/v1
	EndpointSlices             // discovery.k8s.io/v1
	Endpoints                  // core/v1, where EndpointSlices do not exist: Kubernetes before 1.21
	Namespaces                 // core/v1
	Pods                       // core/v1
	Nodes                      // core/v1
	ServiceImports             // multicluster.x-k8s.io/v1alpha1, in JSON alone, as all custom resources are (KEP-1645)
	ConfigMaps                 // core/v1, read in JSON alone: few, small and seldom read
	DNSes                      // operator.openshift.io/v1, in JSON alone
)

var kindNames = [...]string{
	Services: "Service", EndpointSlices: "EndpointSlice", Endpoints: "Endpoints", Namespaces: "Namespace", Pods: "Pod",
	Nodes: "Node", ServiceImports: "ServiceImport", ConfigMaps: "ConfigMap", DNSes: "DNS",
}

// String returns the name of the kind as the API has it.
func (k Kind) String() string { return kindNames[k] }

// Object is an object of the cluster.
type Object struct {
	Key zone.Key // the Namespace of a Namespace is ""
	// Version is metadata.resourceVersion, which orders all that happened in the cluster. The API calls it opaque, but
	// it has been etcd's revision ever since, and Kubernetes 1.35 made its order a promise (KEP-5504).
	Version uint64
	// Value is a *zone.Service (of a ServiceImport, too), a *zone.Slice, the []zone.Slice that are the subsets of an Endpoints, a *zone.Pod, a Node, a
	// Namespace, a ConfigMap or a DNS. Nil: it holds nothing for DNS.
	Value any
	// Triggered is, of a *zone.Slice, when that happened which it was written for, by a clock of the control plane. Zero: it does
	// not say, or makes no sense.
	Triggered time.Time
	// TooBig says why there is no Value, of an object that has more than it may; it matches ErrTooBig. Nil: it has not.
	TooBig error
}

// Namespace is the Value of a namespace: that it is there is all that DNS needs.
type Namespace struct{}

// Node is the Value of a node: the topology zone that it is in; "": it has none.
type Node struct{ Zone string }

// ConfigMap is the Value of a ConfigMap: its data.
type ConfigMap map[string]string

// DNS is the Value of a DNS of OpenShift's operator: the part of its spec that says where names are asked, as JSON.
type DNS struct {
	Servers           json.RawMessage `json:"servers,omitempty"`
	UpstreamResolvers json.RawMessage `json:"upstreamResolvers,omitempty"`
}

// EventType says what a watch tells.
type EventType uint8

// The types of event.
const (
	Set      EventType = iota // ADDED and MODIFIED: a reader that resumes cannot tell them apart
	Deleted                   // the object, or that it no longer matches the selector
	Bookmark                  // nothing but how far the watch has come
	Failed                    // Status says why; no event follows
)

// Event is what a watch tells.
type Event struct {
	Type   EventType
	Object Object // of a Bookmark the Version alone
	Status Status // of Failed
}

// Format is how the server writes.
type Format uint8

// The formats. Every real API server writes Protobuf; JSON is for those that stand before one and do not.
const (
	Protobuf Format = iota
	JSON
)

// Accept is the request header that asks for what is read here; AcceptJSON is for the kinds that are read in JSON alone.
const (
	Accept     = "application/vnd.kubernetes.protobuf, application/json;q=0.9"
	AcceptJSON = "application/json"
)

// ParseFormat reads a Content-Type header.
func ParseFormat(contentType string) (Format, error) {
	media, _, err := mime.ParseMediaType(contentType)
	switch {
	case err == nil && media == "application/vnd.kubernetes.protobuf":
		return Protobuf, nil
	case err == nil && media == "application/json":
		return JSON, nil
	}
	return 0, fmt.Errorf("%w: content type %q is neither Kubernetes protobuf nor JSON", ErrMalformed, contentType)
}
