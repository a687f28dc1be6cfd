package kubewire

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// endpoint is an endpoint being read. Its addresses are in the scratch.
type endpoint struct {
	hostname, pod, zone []byte
	notReady            bool
}

// slice decodes a discovery/v1 EndpointSlice: 1 metadata, 2 endpoints, 3 ports.
func (d *Decoder) slice(message []byte) (Object, error) {
	m := meta{wantsTrigger: true}
	err := each(message, func(f *fields) error {
		switch {
		case f.isBytes(1):
			return m.parse(f.bytes)
		case f.isBytes(2):
			return d.endpoint(f.bytes, sliceEndpoint, false)
		case f.isBytes(3):
			return d.port(f.bytes, slicePort)
		}
		return nil
	})
	if m.isOfNone() {
		return m.object(d, nil), err
	}
	slice := d.newSliceOf(&m)
	return Object{Key: slice.Key, Version: m.version, Value: slice, Triggered: parseTrigger(m.trigger)}, err
}

// endpointNumbers are the numbers of the endpoint fields that are read. They differ between the
// APIs.
type endpointNumbers struct{ addr, conditions, hostname, pod, zone uint64 }

// noField matches no field: a tag has 61 bits for the number.
const noField = 1 << 62

var (
	sliceEndpoint = endpointNumbers{addr: 1, conditions: 2, hostname: 3, pod: 4, zone: 7}             // discovery/v1 Endpoint
	subsetAddress = endpointNumbers{addr: 1, conditions: noField, hostname: 3, pod: 2, zone: noField} // core/v1 EndpointAddress
)

// endpoint decodes an endpoint into the scratch. notReady holds for endpoints without conditions.
func (d *Decoder) endpoint(message []byte, is endpointNumbers, notReady bool) error {
	e := endpoint{notReady: notReady}
	d.addrs = d.addrs[:0]
	err := each(message, func(f *fields) (err error) {
		switch {
		case f.isBytes(is.addr):
			d.addAddr(f.bytes)
		case f.isBytes(is.conditions):
			err = e.conditions(f.bytes)
		case f.isBytes(is.hostname):
			e.hostname = f.bytes
		case f.isBytes(is.pod):
			e.pod, err = podName(f.bytes)
		case f.isBytes(is.zone):
			e.zone = f.bytes
		}
		return err
	})
	if err != nil {
		return err
	}
	return d.addEndpoint(&e)
}

// conditions decodes EndpointConditions. Without a ready condition the endpoint counts as ready.
func (e *endpoint) conditions(message []byte) error {
	return each(message, func(f *fields) error {
		if f.isVarint(1) {
			e.notReady = f.value == 0
		}
		return nil
	})
}

// subsets decodes a core/v1 Endpoints: 1 metadata, 2 subsets. Each subset becomes a zone.Slice
// without Key and Service, as zone.Builder expects.
func (d *Decoder) subsets(message []byte) (Object, error) {
	m, err := d.metaAlone(message)
	if err != nil {
		return Object{}, err
	}
	var all []zone.Slice
	err = each(message, func(f *fields) error {
		if !f.isBytes(2) {
			return nil
		}
		if err := add(&d.counts.subsets, 1, "subsets", maxSubsets); err != nil {
			return err
		}
		err := d.subset(f.bytes)
		if len(d.endpoints) > 0 {
			all = append(all, *d.newSlice(zone.Key{}, ""))
		}
		return err
	})
	if len(all) == 0 {
		return m.object(d, nil), err
	}
	return m.object(d, all), err
}

// subset decodes an EndpointSubset into the scratch: 1 addresses, 2 notReadyAddresses, 3 ports.
func (d *Decoder) subset(message []byte) error {
	d.ports, d.endpoints = d.ports[:0], d.endpoints[:0]
	return each(message, func(f *fields) error {
		switch {
		case f.isBytes(1):
			return d.endpoint(f.bytes, subsetAddress, false)
		case f.isBytes(2):
			return d.endpoint(f.bytes, subsetAddress, true)
		case f.isBytes(3):
			return d.port(f.bytes, endpointsPort)
		}
		return nil
	})
}

// podName decodes a core/v1 ObjectReference (1 kind, 3 name) and returns the name if it refers to a
// Pod.
func podName(message []byte) ([]byte, error) {
	var kind, name []byte
	f := fields{rest: message}
	for f.next() {
		switch {
		case f.isBytes(1):
			kind = f.bytes
		case f.isBytes(3):
			name = f.bytes
		}
	}
	if string(kind) != "Pod" {
		name = nil
	}
	return name, f.err
}

// addEndpoint adds e to the scratch, once for each of its addresses. The API allows several
// interchangeable addresses per endpoint. Controllers write one.
func (d *Decoder) addEndpoint(e *endpoint) error {
	if err := add(&d.counts.endpoints, len(d.addrs), "endpoints", maxEndpoints); err != nil || len(d.addrs) == 0 {
		return err
	}
	if len(e.hostname) > maxLabel {
		e.hostname = nil
	}
	made := zone.Endpoint{
		Hostname: string(e.hostname),
		Pod:      string(e.pod),
		Zone:     d.names.label(e.zone),
		Ready:    !e.notReady,
	}
	for _, made.Addr = range d.addrs {
		d.endpoints = append(d.endpoints, made)
	}
	return nil
}

// isOfNone reports whether an EndpointSlice belongs to neither a Service nor a ServiceImport.
func (m *meta) isOfNone() bool { return len(m.service)+len(m.imported) == 0 }

// newSliceOf builds the zone.Slice of an EndpointSlice with this metadata from the scratch.
func (d *Decoder) newSliceOf(m *meta) *zone.Slice {
	slice := d.newSlice(m.key(d), string(m.service))
	if len(m.imported) > 0 {
		slice.Import, slice.Cluster = string(m.imported), d.names.label(bytes.ToLower(m.cluster))
		if strings.Contains(slice.Cluster, ".") { // a label value may have dots, a DNS label must not
			slice.Cluster = ""
		}
	}
	return slice
}

func (d *Decoder) newSlice(key zone.Key, service string) *zone.Slice {
	return &zone.Slice{
		Key:       key,
		Service:   service,
		Ports:     d.names.portList(d.ports),
		Endpoints: slices.Clone(d.endpoints),
	}
}

// triggerAnnotation is the annotation of an EndpointSlice with the time of the Service or Pod
// change that it was written for. Controllers remove it if a change has no known time, such as the
// end of a Pod (k8s.io/endpointslice, utils.go).
const triggerAnnotation = "endpoints.kubernetes.io/last-change-trigger-time"

// maxTrigger is the length of the longest RFC 3339 time with nanoseconds.
const maxTrigger = len("2006-01-02T15:04:05.999999999+07:00")

// parseTrigger parses the annotation. It returns the zero time if it is invalid or does not fit
// into int64 nanoseconds. Anyone who may write a slice controls the annotation, so no answer
// depends on it.
func parseTrigger(text []byte) time.Time {
	if len(text) == 0 || len(text) > maxTrigger {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, string(text))
	if at = at.UTC(); err != nil || at.Year() < 1970 || at.Year() > 2261 {
		return time.Time{}
	}
	return at
}
