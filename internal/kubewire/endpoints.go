package kubewire

import (
	"slices"

	"github.com/node-dns/node-dns/internal/zone"
)

// endpoint is one endpoint while it is read. Its addresses are in the scratch.
type endpoint struct {
	hostname, pod, zone []byte
	notReady            bool
}

// slice reads a discovery/v1 EndpointSlice: 1 metadata, 2 endpoints, 3 ports.
func (d *Decoder) slice(message []byte) (Object, error) {
	var m meta
	d.ports, d.endpoints = d.ports[:0], d.endpoints[:0]
	f := fields{rest: message}
	for f.next() {
		var err error
		switch {
		case f.isBytes(1):
			err = m.parse(f.bytes)
		case f.isBytes(2):
			err = d.sliceEndpoint(f.bytes)
		case f.isBytes(3):
			err = d.port(f.bytes, slicePort)
		}
		if err != nil {
			return Object{}, err
		}
	}
	if len(m.service) == 0 { // of no Service
		return m.object(d, nil), f.err
	}
	slice := d.newSlice(m.key(d), string(m.service))
	return Object{Key: slice.Key, Version: m.version, Value: slice}, f.err
}

// sliceEndpoint reads a discovery/v1 Endpoint: 1 addresses, 2 conditions (1 ready), 3 hostname, 4 targetRef, 7 zone.
func (d *Decoder) sliceEndpoint(message []byte) (err error) {
	var e endpoint
	d.addrs = d.addrs[:0]
	f := fields{rest: message}
	for f.next() {
		switch {
		case f.isBytes(1):
			d.addAddr(f.bytes)
		case f.isBytes(2):
			conditions := fields{rest: f.bytes}
			for conditions.next() {
				if conditions.isVarint(1) {
					e.notReady = conditions.value == 0
				}
			}
			err = conditions.err
		case f.isBytes(3):
			e.hostname = f.bytes
		case f.isBytes(4):
			e.pod, err = podName(f.bytes)
		case f.isBytes(7):
			e.zone = f.bytes
		}
		if err != nil {
			return err
		}
	}
	if f.err != nil {
		return f.err
	}
	return d.addEndpoint(&e)
}

// subsets reads a core/v1 Endpoints: 1 metadata, 2 subsets. Each subset becomes a zone.Slice without Key and Service,
// as zone.Builder wants it.
func (d *Decoder) subsets(message []byte) (Object, error) {
	m, err := d.metaAlone(message)
	if err != nil {
		return Object{}, err
	}
	var all []zone.Slice
	f := fields{rest: message}
	for f.next() {
		if !f.isBytes(2) {
			continue
		}
		if err := d.subset(f.bytes); err != nil {
			return Object{}, err
		}
		if len(d.endpoints) > 0 {
			all = append(all, *d.newSlice(zone.Key{}, ""))
		}
	}
	if len(all) == 0 {
		return m.object(d, nil), f.err
	}
	return m.object(d, all), f.err
}

// subset reads an EndpointSubset into the scratch: 1 addresses, 2 notReadyAddresses, 3 ports.
func (d *Decoder) subset(message []byte) error {
	d.ports, d.endpoints = d.ports[:0], d.endpoints[:0]
	f := fields{rest: message}
	for f.next() {
		var err error
		switch {
		case f.isBytes(1):
			err = d.subsetAddress(f.bytes, true)
		case f.isBytes(2):
			err = d.subsetAddress(f.bytes, false)
		case f.isBytes(3):
			err = d.port(f.bytes, endpointsPort)
		}
		if err != nil {
			return err
		}
	}
	return f.err
}

// subsetAddress reads an EndpointAddress: 1 ip, 2 targetRef, 3 hostname.
func (d *Decoder) subsetAddress(message []byte, ready bool) (err error) {
	e := endpoint{notReady: !ready}
	d.addrs = d.addrs[:0]
	f := fields{rest: message}
	for f.next() {
		switch {
		case f.isBytes(1):
			d.addAddr(f.bytes)
		case f.isBytes(2):
			e.pod, err = podName(f.bytes)
		case f.isBytes(3):
			e.hostname = f.bytes
		}
		if err != nil {
			return err
		}
	}
	if f.err != nil {
		return f.err
	}
	return d.addEndpoint(&e)
}

// podName reads a core/v1 ObjectReference (1 kind, 3 name), and returns the name when it is a Pod's.
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

// addEndpoint adds e to the scratch, once for each of its addresses. The API lets an endpoint have many that are
// interchangeable; controllers write one.
func (d *Decoder) addEndpoint(e *endpoint) error {
	if len(d.endpoints)+len(d.addrs) > maxEndpoints {
		return tooMany("endpoints", maxEndpoints)
	}
	if len(d.addrs) == 0 {
		return nil
	}
	made := zone.Endpoint{
		Hostname: string(e.hostname),
		Pod:      string(e.pod),
		Zone:     d.names.text(e.zone),
		Ready:    !e.notReady,
	}
	for _, made.Addr = range d.addrs {
		d.endpoints = append(d.endpoints, made)
	}
	return nil
}

// newSlice makes a slice of what is in the scratch.
func (d *Decoder) newSlice(key zone.Key, service string) *zone.Slice {
	return &zone.Slice{
		Key:       key,
		Service:   service,
		Ports:     d.names.portList(d.ports),
		Endpoints: slices.Clone(d.endpoints),
	}
}
