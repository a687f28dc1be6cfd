package kubewire

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// Labels of an EndpointSlice: its Service, its ServiceImport, and the cluster of its endpoints.
const (
	serviceLabel = "kubernetes.io/service-name"
	importLabel  = "multicluster.kubernetes.io/service-name"
	clusterLabel = "multicluster.kubernetes.io/source-cluster"
)

// Labels of a Node with its topology zone: since Kubernetes 1.17, and before.
const (
	zoneLabel    = "topology.kubernetes.io/zone"
	oldZoneLabel = "failure-domain.beta.kubernetes.io/zone"
)

// meta holds the fields that are read from a meta/v1 ObjectMeta.
type meta struct {
	name, namespace []byte
	version         uint64
	service         []byte // value of serviceLabel
	imported        []byte // value of importLabel
	cluster         []byte // value of clusterLabel
	zone            []byte // value of zoneLabel or oldZoneLabel

	wantsTrigger bool
	trigger      []byte // value of triggerAnnotation, if wantsTrigger is set
}

// scratch is reused for every object. Results are copied from it.
type scratch struct {
	counts    struct{ endpoints, ports, subsets int } // of the whole object
	ports     []zone.Port
	endpoints []zone.Endpoint
	addrs     []netip.Addr
}

// object decodes an object of the Decoder's kind. Nothing in the result points into message.
func (d *Decoder) object(message []byte) (Object, error) {
	object, err := d.parse(message)
	if errors.Is(err, ErrTooBig) {
		var m meta
		tooBig := err
		if m, err = d.metaAlone(message); err == nil {
			object = m.object(d, nil)
			object.TooBig = tooBig
		}
	}
	switch {
	case err != nil:
		return Object{}, fmt.Errorf("reading a %v: %w", d.kind, err)
	case object.Key.Name == "":
		return Object{}, fmt.Errorf("reading a %v: %w: missing name", d.kind, ErrMalformed)
	}
	return object, nil
}

func (d *Decoder) parse(message []byte) (Object, error) {
	d.begin()
	switch d.kind {
	case Services:
		return d.service(message)
	case EndpointSlices:
		return d.slice(message)
	case Endpoints:
		return d.subsets(message)
	case Pods:
		return d.pod(message)
	case Nodes:
		m, err := d.metaAlone(message)
		return m.object(d, Node{Zone: string(m.zone)}), err
	case ServiceImports, ConfigMaps, DNSes:
		return Object{}, fmt.Errorf("%w: unexpected protobuf", ErrMalformed)
	default:
		m, err := d.metaAlone(message)
		return m.object(d, Namespace{}), err
	}
}

func (m *meta) object(d *Decoder, value any) Object {
	return Object{Key: m.key(d), Version: m.version, Value: value}
}

func (m *meta) key(d *Decoder) zone.Key {
	return zone.Key{Namespace: d.names.text(m.namespace), Name: string(m.name)}
}

// metaAlone decodes the metadata (1) of an object of any kind.
func (d *Decoder) metaAlone(message []byte) (m meta, err error) {
	f := fields{rest: message}
	for f.next() {
		if f.isBytes(1) {
			if err := m.parse(f.bytes); err != nil {
				return m, err
			}
		}
	}
	return m, f.err
}

// parse decodes an ObjectMeta: 1 name, 3 namespace, 6 resourceVersion, 11 labels, 12 annotations.
func (m *meta) parse(message []byte) (err error) {
	f := fields{rest: message}
	for f.next() {
		switch {
		case f.isBytes(1):
			m.name = f.bytes
		case f.isBytes(3):
			m.namespace = f.bytes
		case f.isBytes(6):
			if m.version, err = parseVersion(f.bytes); err != nil {
				return err
			}
		case f.isBytes(11):
			key, value, err := mapEntry(f.bytes)
			if err != nil {
				return err
			}
			switch string(key) {
			case serviceLabel:
				m.service = value
			case importLabel:
				m.imported = value
			case clusterLabel:
				m.cluster = value
			case zoneLabel:
				m.zone = value
			case oldZoneLabel:
				m.setOldZone(value)
			}
		case m.wantsTrigger && f.isBytes(12):
			key, value, err := mapEntry(f.bytes)
			if err != nil {
				return err
			}
			if string(key) == triggerAnnotation {
				m.trigger = value
			}
		}
	}
	return f.err
}

// setOldZone sets the zone from oldZoneLabel, unless zoneLabel has set it.
func (m *meta) setOldZone(value []byte) {
	if len(m.zone) == 0 {
		m.zone = value
	}
}

// parseAddr parses an IP address. It returns false for anything else, such as the names in slices
// of addressType FQDN. An IPv4-mapped IPv6 address becomes the IPv4 address.
func parseAddr(text []byte) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(string(text))
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, false
	}
	return addr.Unmap(), true
}

// addAddr adds text to the scratch if it is an IP address.
func (d *Decoder) addAddr(text []byte) {
	if addr, ok := parseAddr(text); ok && len(d.addrs) < maxEndpoints {
		d.addrs = append(d.addrs, addr)
	}
}

func parseProtocol(text []byte) zone.Protocol {
	switch string(text) {
	case "UDP":
		return zone.UDP
	case "SCTP":
		return zone.SCTP
	}
	return zone.TCP
}

// begin resets the scratch for the next object.
func (d *Decoder) begin() {
	d.ports, d.endpoints, d.addrs = d.ports[:0], d.endpoints[:0], d.addrs[:0]
	d.counts.endpoints, d.counts.ports, d.counts.subsets = 0, 0, 0
}

// add adds n to count. Over the limit it returns an error that matches ErrTooBig.
func add(count *int, n int, what string, limit int) error {
	if *count += n; *count > limit {
		return tooMany(what, limit)
	}
	return nil
}

func tooMany(what string, limit int) error {
	return fmt.Errorf("%w: more than %d %s", ErrTooBig, limit, what)
}
