package kubewire

import (
	"slices"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// serviceSpec has the fields that are read of a core/v1 ServiceSpec. The ports are in the scratch.
type serviceSpec struct {
	clusterIP, kind, externalName []byte
	publishNotReady, hasSelector  bool
}

// service decodes a core/v1 Service: 1 metadata, 2 spec.
func (d *Decoder) service(message []byte) (Object, error) {
	var m meta
	var spec serviceSpec
	err := each(message, func(f *fields) error {
		switch {
		case f.isBytes(1):
			return m.parse(f.bytes)
		case f.isBytes(2):
			return d.serviceSpec(f.bytes, &spec)
		}
		return nil
	})
	service := d.newService(&m, &spec)
	return Object{Key: service.Key, Version: m.version, Value: service}, err
}

// serviceSpec decodes a ServiceSpec: 1 ports, 2 selector, 3 clusterIP, 4 type, 10 externalName, 13
// publishNotReadyAddresses, 18 clusterIPs (since Kubernetes 1.20).
func (d *Decoder) serviceSpec(message []byte, spec *serviceSpec) error {
	f := fields{rest: message}
	for f.next() {
		switch {
		case f.isBytes(1):
			if err := d.port(f.bytes, servicePort); err != nil {
				return err
			}
		case f.isBytes(2):
			spec.hasSelector = true
		case f.isBytes(3):
			spec.clusterIP = f.bytes
		case f.isBytes(4):
			spec.kind = f.bytes
		case f.isBytes(10):
			spec.externalName = f.bytes
		case f.isVarint(13):
			spec.publishNotReady = f.value != 0
		case f.isBytes(18):
			d.addAddr(f.bytes)
		}
	}
	return f.err
}

// maxClusterIPs bounds the addresses of a Service or ServiceImport, each of which has an SRV record
// for each port. A correct one has one address per family.
const maxClusterIPs = 4

func (d *Decoder) newService(m *meta, spec *serviceSpec) *zone.Service {
	s := &zone.Service{
		Key:             m.key(d),
		Ports:           d.names.portList(d.ports),
		PublishNotReady: spec.publishNotReady,
		HasSelector:     spec.hasSelector,
	}
	switch {
	case string(spec.kind) == "ExternalName":
		s.Kind, s.ExternalName = zone.ExternalName, string(spec.externalName)
	case string(spec.clusterIP) == "None":
		s.Kind = zone.Headless
	case len(d.addrs) > 0:
		s.ClusterIPs = slices.Clone(d.addrs[:min(len(d.addrs), maxClusterIPs)])
	default:
		if addr, ok := parseAddr(spec.clusterIP); ok {
			s.ClusterIPs = append(s.ClusterIPs, addr)
		}
	}
	return s
}

// portNumbers are the field numbers of a port message. The name is always field 1.
type portNumbers struct{ protocol, number uint64 }

var (
	servicePort   = portNumbers{protocol: 2, number: 3} // core/v1 ServicePort
	slicePort     = portNumbers{protocol: 2, number: 3} // discovery/v1 EndpointPort
	endpointsPort = portNumbers{protocol: 3, number: 2} // core/v1 EndpointPort
)

// port decodes a port into the scratch. A port with a number outside 0 to 65535 is dropped.
func (d *Decoder) port(message []byte, is portNumbers) error {
	var p zone.Port
	var number uint64
	f := fields{rest: message}
	for f.next() {
		switch {
		case f.isBytes(1):
			p.Name = d.names.label(f.bytes)
		case f.isBytes(is.protocol):
			p.Protocol = parseProtocol(f.bytes)
		case f.isVarint(is.number):
			number = f.value
		}
	}
	if f.err != nil {
		return f.err
	}
	if number <= 0xffff {
		p.Number = uint16(number)
		d.ports = append(d.ports, p)
	}
	return add(&d.counts.ports, 1, "ports", maxPorts)
}
