// Package kubewire decodes the responses of a Kubernetes API server to LIST and WATCH requests,
// item by item as they arrive, and keeps only the fields that DNS needs.
//
// Package cluster decides what to request and how to use it. This package sends no requests, does
// not wait and keeps no state. The Kubernetes libraries hold a complete LIST in memory, as bytes
// and as objects with all fields: 180 to 290 MiB for 10,000 Services and 100,000 endpoints.
// Decoding item by item takes 15 MiB.
package kubewire

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// Errors of an invalid response. Every error matches one of them or comes from the reader.
var (
	ErrMalformed = errors.New("malformed answer")
	ErrTooBig    = errors.New("object is too big")
)

// Limits of one object. etcd accepts requests of up to 1.5 MiB, so objects of a real server stay
// far below.
const (
	maxObject    = 8 << 20
	maxPorts     = 4096
	maxEndpoints = 1 << 16
	maxSubsets   = 4096
	maxItems     = 4 * maxEndpoints // total members of all lists of one object in JSON: an endpoint counts as one, plus one for each address
	maxLabel     = 63               // maximum length of a DNS label or of an object's label value, in bytes
)

// Kind is a kind of object.
type Kind uint8

// Kinds of object that DNS needs.
const (
	Services       Kind = iota // core/v1
	EndpointSlices             // discovery.k8s.io/v1
	Endpoints                  // core/v1, for API servers without EndpointSlices: Kubernetes before 1.21
	Namespaces                 // core/v1
	Pods                       // core/v1
	Nodes                      // core/v1
	ServiceImports             // multicluster.x-k8s.io/v1alpha1, only in JSON, like all custom resources (KEP-1645)
	ConfigMaps                 // core/v1, only in JSON: they are few, small and rarely read
	DNSes                      // operator.openshift.io/v1, only in JSON
)

var kindNames = [...]string{
	Services: "Service", EndpointSlices: "EndpointSlice", Endpoints: "Endpoints", Namespaces: "Namespace", Pods: "Pod",
	Nodes: "Node", ServiceImports: "ServiceImport", ConfigMaps: "ConfigMap", DNSes: "DNS",
}

// String returns the API's name of the kind.
func (k Kind) String() string { return kindNames[k] }

// Object is an object of the cluster.
type Object struct {
	Key zone.Key // the Namespace of a Namespace object is empty
	// Version is metadata.resourceVersion, which orders all changes in the cluster. The API calls
	// it opaque, but it has always been etcd's revision, and Kubernetes 1.35 guarantees its order
	// (KEP-5504).
	Version uint64
	// Value is a *zone.Service (also for a ServiceImport), a *zone.Slice, a []zone.Slice with the
	// subsets of an Endpoints, a *zone.Pod, a Node, a Namespace, a ConfigMap or a DNS. It is nil if
	// the object contains nothing for DNS.
	Value any
	// Triggered is the time of the change that a *zone.Slice was written for, by a clock of the
	// control plane. It is zero if missing or invalid.
	Triggered time.Time
	// TooBig is the reason why an object over a limit has no Value. It matches ErrTooBig. Otherwise
	// it is nil.
	TooBig error
}

// Namespace is the Value of a namespace. DNS only needs to know that it exists.
type Namespace struct{}

// Node is the Value of a node: its topology zone, or "" if it has none.
type Node struct{ Zone string }

// ConfigMap is the Value of a ConfigMap: its data.
type ConfigMap map[string]string

// DNS is the Value of a DNS object of OpenShift's operator: the part of its spec about upstreams,
// as JSON.
type DNS struct {
	Servers           json.RawMessage `json:"servers,omitempty"`
	UpstreamResolvers json.RawMessage `json:"upstreamResolvers,omitempty"`
}

// EventType is the type of a watch event.
type EventType uint8

// Types of watch events.
const (
	Set      EventType = iota // ADDED or MODIFIED: a client that resumes cannot tell them apart
	Deleted                   // the object was deleted, or no longer matches the selector
	Bookmark                  // only reports how far the watch has come
	Failed                    // Status has the reason; no event follows
)

// Event is one event of a watch.
type Event struct {
	Type   EventType
	Object Object // only the Version for a Bookmark
	Status Status // only for Failed
}

// Format is the encoding of a response.
type Format uint8

// Formats of a response. Every real API server supports Protobuf. JSON is for proxies in front of
// one that do not.
const (
	Protobuf Format = iota
	JSON
)

// Accept is the value of the Accept header for the formats that are decoded here. AcceptJSON is for
// the kinds that are decoded only from JSON.
const (
	Accept     = "application/vnd.kubernetes.protobuf, application/json;q=0.9"
	AcceptJSON = "application/json"
)

// ParseFormat parses a Content-Type header.
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
