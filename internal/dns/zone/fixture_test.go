package zone_test

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// object holds the fields of all kinds of Kubernetes objects that the fixtures use.
type object struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Labels          map[string]string
	}
	Spec struct {
		Type                     string
		ClusterIP                string   `yaml:"clusterIP"`
		ClusterIPs               []string `yaml:"clusterIPs"`
		ExternalName             string   `yaml:"externalName"`
		PublishNotReadyAddresses bool     `yaml:"publishNotReadyAddresses"`
		Ports                    []port
	}
	Ports     []port
	Endpoints []struct {
		Addresses  []string
		Hostname   string
		Zone       string
		Conditions struct{ Ready *bool }
		TargetRef  struct{ Kind, Name string } `yaml:"targetRef"`
	}
	Subsets []struct {
		Addresses         []address
		NotReadyAddresses []address `yaml:"notReadyAddresses"`
		Ports             []port
	}
	Status struct {
		PodIPs []struct{ IP string } `yaml:"podIPs"`
	}
}

type port struct {
	Name, Protocol string
	Port           uint16
}

type address struct{ IP, Hostname string }

// load fills a Builder from a fixture, using either its Endpoints or its EndpointSlices.
func load(t testing.TB, file string, endpoints bool) *zone.Builder {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	b := new(zone.Builder)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var o object
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return b
		}
		if err != nil {
			t.Fatal(err)
		}
		o.into(t, b, endpoints)
	}
}

func (o *object) into(t testing.TB, b *zone.Builder, endpoints bool) {
	t.Helper()
	key := zone.Key{Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
	switch o.Kind {
	case "Namespace":
		b.SetNamespace(key.Name)
	case "Service":
		b.SetService(o.service(key))
	case "Pod":
		pod := &zone.Pod{Key: key}
		for _, ip := range o.Status.PodIPs {
			pod.Addrs = append(pod.Addrs, netip.MustParseAddr(ip.IP))
		}
		b.SetPod(pod)
	case "EndpointSlice":
		if !endpoints {
			b.SetSlice(o.slice(key))
		}
	case "Endpoints":
		if endpoints {
			b.SetEndpoints(key, o.subsets())
		}
	default:
		t.Fatalf("a fixture has a %q", o.Kind)
	}
}

func (o *object) service(key zone.Key) *zone.Service {
	s := &zone.Service{
		Key: key, Ports: ports(o.Spec.Ports), ExternalName: o.Spec.ExternalName, PublishNotReady: o.Spec.PublishNotReadyAddresses,
	}
	switch {
	case o.Spec.Type == "ExternalName":
		s.Kind = zone.ExternalName
	case o.Spec.ClusterIP == "None":
		s.Kind = zone.Headless
	default:
		for _, ip := range o.Spec.ClusterIPs {
			s.ClusterIPs = append(s.ClusterIPs, netip.MustParseAddr(ip))
		}
	}
	return s
}

func (o *object) slice(key zone.Key) *zone.Slice {
	s := &zone.Slice{Key: key, Service: o.Metadata.Labels["kubernetes.io/service-name"], Ports: ports(o.Ports)}
	for _, e := range o.Endpoints {
		endpoint := zone.Endpoint{
			Addr: netip.MustParseAddr(e.Addresses[0]), Hostname: e.Hostname, Zone: e.Zone,
			Ready: e.Conditions.Ready == nil || *e.Conditions.Ready,
		}
		if e.TargetRef.Kind == "Pod" {
			endpoint.Pod = e.TargetRef.Name
		}
		s.Endpoints = append(s.Endpoints, endpoint)
	}
	return s
}

func (o *object) subsets() []zone.Slice {
	var all []zone.Slice
	for _, subset := range o.Subsets {
		s := zone.Slice{Ports: ports(subset.Ports)}
		for _, a := range subset.Addresses {
			s.Endpoints = append(s.Endpoints, zone.Endpoint{Addr: netip.MustParseAddr(a.IP), Hostname: a.Hostname, Ready: true})
		}
		for _, a := range subset.NotReadyAddresses {
			s.Endpoints = append(s.Endpoints, zone.Endpoint{Addr: netip.MustParseAddr(a.IP), Hostname: a.Hostname})
		}
		all = append(all, s)
	}
	return all
}

func ports(of []port) []zone.Port {
	var all []zone.Port
	for _, p := range of {
		all = append(all, zone.Port{
			Name: p.Name, Number: p.Port, Protocol: map[string]zone.Protocol{"UDP": zone.UDP, "SCTP": zone.SCTP}[p.Protocol],
		})
	}
	return all
}
