package kubewire

import (
	"errors"
	"fmt"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// convert converts an object from JSON. The result is the same as that of object for protobuf.
func (d *Decoder) convert(from *objectJSON) (Object, error) {
	version, err := parseVersion([]byte(from.Metadata.ResourceVersion))
	m := meta{
		name:      []byte(from.Metadata.Name),
		namespace: []byte(from.Metadata.Namespace),
		service:   []byte(from.Metadata.Labels.Service),
		imported:  []byte(from.Metadata.Labels.Import),
		cluster:   []byte(from.Metadata.Labels.Cluster),
		zone:      []byte(from.Metadata.Labels.Zone),
		version:   version,
	}
	if err == nil && len(m.name) == 0 {
		err = fmt.Errorf("%w: missing name", ErrMalformed)
	}
	d.begin()
	var value any
	var tooBig error
	if err == nil {
		value, err = d.convertValue(&m, from)
	}
	if *from.room < 0 {
		err = tooMany("members of lists", maxItems)
	}
	if errors.Is(err, ErrTooBig) {
		value, tooBig, err = nil, fmt.Errorf("reading a %v: %w", d.kind, err), nil
	}
	if err != nil {
		return Object{}, fmt.Errorf("reading a %v: %w", d.kind, err)
	}
	object := m.object(d, value)
	object.TooBig = tooBig
	if d.kind == EndpointSlices && value != nil {
		object.Triggered = parseTrigger([]byte(from.Metadata.Annotations.Trigger))
	}
	return object, nil
}

func (d *Decoder) convertValue(m *meta, from *objectJSON) (any, error) {
	switch d.kind {
	case Services:
		return d.convertService(m, from)
	case Nodes:
		m.setOldZone([]byte(from.Metadata.Labels.OldZone))
		return Node{Zone: string(m.zone)}, nil
	case ServiceImports:
		return d.convertImport(m, from)
	case ConfigMaps:
		return ConfigMap(from.Data.all), nil
	case DNSes:
		return from.Spec.DNS, nil
	case EndpointSlices:
		return d.convertSlice(m, from)
	case Endpoints:
		return d.convertSubsets(from)
	case Pods:
		return d.convertPod(m, from), nil
	default:
		return Namespace{}, nil
	}
}

func (d *Decoder) convertService(m *meta, from *objectJSON) (any, error) {
	for _, ip := range from.Spec.ClusterIPs.all {
		d.addAddr([]byte(ip))
	}
	spec := serviceSpec{
		clusterIP:       []byte(from.Spec.ClusterIP),
		kind:            []byte(from.Spec.Type),
		externalName:    []byte(from.Spec.ExternalName),
		publishNotReady: from.Spec.PublishNotReadyAddresses,
		hasSelector:     bool(from.Spec.Selector),
	}
	err := d.convertPorts(from.Spec.Ports)
	return d.newService(m, &spec), err
}

// convertImport converts a ServiceImport to a Service, headless or with the clusterset addresses.
func (d *Decoder) convertImport(m *meta, from *objectJSON) (any, error) {
	var spec serviceSpec
	if from.Spec.Type == "Headless" {
		spec.clusterIP = []byte("None")
	} else {
		for _, ip := range from.Spec.IPs.all {
			d.addAddr([]byte(ip))
		}
	}
	err := d.convertPorts(from.Spec.Ports)
	return d.newService(m, &spec), err
}

func (d *Decoder) convertPorts(from list[portJSON]) error {
	if err := add(&d.counts.ports, len(from.all), "ports", maxPorts); err != nil {
		return err
	}
	for _, p := range from.all {
		if p.Port >= 0 && p.Port <= 0xffff {
			d.ports = append(d.ports, zone.Port{
				Name:     d.names.label([]byte(p.Name)),
				Number:   uint16(p.Port),
				Protocol: parseProtocol([]byte(p.Protocol)),
			})
		}
	}
	return nil
}

func (d *Decoder) convertSlice(m *meta, from *objectJSON) (any, error) {
	if m.isOfNone() {
		return nil, nil
	}
	if err := d.convertPorts(from.Ports); err != nil {
		return nil, err
	}
	for i := range from.Endpoints.all {
		f := &from.Endpoints.all[i]
		ready := f.Conditions.Ready == nil || *f.Conditions.Ready
		if err := d.convertEndpoint(f.Addresses.all, f.Hostname, f.Zone, f.TargetRef, ready); err != nil {
			return nil, err
		}
	}
	return d.newSliceOf(m), nil
}

func (d *Decoder) convertEndpoint(addresses []string, hostname, zone string, target referenceJSON, ready bool) error {
	e := endpoint{hostname: []byte(hostname), zone: []byte(zone), notReady: !ready}
	if target.Kind == "Pod" {
		e.pod = []byte(target.Name)
	}
	d.addrs = d.addrs[:0]
	for _, a := range addresses {
		d.addAddr([]byte(a))
	}
	return d.addEndpoint(&e)
}

func (d *Decoder) convertSubsets(from *objectJSON) (any, error) {
	var all []zone.Slice
	for _, subset := range from.Subsets.all {
		if err := add(&d.counts.subsets, 1, "subsets", maxSubsets); err != nil {
			return nil, err
		}
		d.ports, d.endpoints = d.ports[:0], d.endpoints[:0]
		if err := d.convertPorts(subset.Ports); err != nil {
			return nil, err
		}
		for i, a := range slices.Concat(subset.Addresses.all, subset.NotReadyAddresses.all) {
			ready := i < len(subset.Addresses.all)
			if err := d.convertEndpoint([]string{a.IP}, a.Hostname, "", a.TargetRef, ready); err != nil {
				return nil, err
			}
		}
		if len(d.endpoints) > 0 {
			all = append(all, *d.newSlice(zone.Key{}, ""))
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

func (d *Decoder) convertPod(m *meta, from *objectJSON) any {
	for _, ip := range from.Status.PodIPs.all {
		d.addAddr([]byte(ip.IP))
	}
	if len(d.addrs) == 0 {
		d.addAddr([]byte(from.Status.PodIP))
	}
	spec := podSpec{
		hostNetwork: from.Spec.HostNetwork, dnsPolicy: []byte(from.Spec.DNSPolicy), searches: bool(from.Spec.DNSConfig.Searches),
	}
	return spec.pod(m.key(d), hasEnded(from.Status.Phase), d.addrs)
}
