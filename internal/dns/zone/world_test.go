package zone_test

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// cluster fills a Builder from lines, one per object. Lists are separated by blanks. NAMESPACE/NAME
// is the key of an object.
//
//	namespace NAME
//	zone      NAME                                 of this node
//	pod       NS/NAME [search] ADDRESS…            search: it has its own search list
//	service   NS/NAME [publish] ADDRESS… PORT…     a port is [NAME:]NUMBER[/udp|/sctp]
//	headless  NS/NAME [publish] PORT…
//	external  NS/NAME TARGET PORT…
//	import    NS/NAME ADDRESS… PORT…               a ServiceImport; headless if it has no address
//	imported  NS/NAME IMPORT@CLUSTER PORT… ENDPOINT…
//	slice     NS/NAME SERVICE PORT… ENDPOINT…      an endpoint is [!]ADDRESS[=HOSTNAME][@ZONE][+POD]; ! is not ready
func cluster(t testing.TB, lines string) *zone.Builder {
	t.Helper()
	b := new(zone.Builder)
	for line := range strings.Lines(lines) {
		if words := strings.Fields(line); len(words) > 1 {
			setLine(t, b, words[0], words[1], words[2:])
		}
	}
	return b
}

func setLine(t testing.TB, b *zone.Builder, kind, id string, words []string) {
	t.Helper()
	namespace, name, _ := strings.Cut(id, "/")
	key := zone.Key{Namespace: namespace, Name: name}
	switch kind {
	case "namespace":
		b.SetNamespace(id)
	case "zone":
		b.SetZone(id)
	case "pod":
		own := len(words) > 0 && words[0] == "search"
		if own {
			words = words[1:]
		}
		b.SetPod(&zone.Pod{Key: key, Addrs: addrs(words), OwnSearch: own})
	case "slice":
		b.SetSlice(sliceOf(t, key, words))
	case "imported":
		service, cluster, _ := strings.Cut(words[0], "@")
		s := sliceOf(t, key, append([]string{""}, words[1:]...))
		s.Import, s.Cluster = service, cluster
		b.SetImports(true)
		b.Imports().SetSlice(s.Imported())
	default:
		s := &zone.Service{Key: key}
		if kind == "import" {
			b.SetImports(true)
			b = b.Imports()
		}
		s.Kind = map[string]zone.Kind{"service": zone.ClusterIP, "headless": zone.Headless, "external": zone.ExternalName}[kind]
		if kind == "external" {
			s.ExternalName, words = words[0], words[1:]
		}
		for _, word := range words {
			if addr, err := netip.ParseAddr(word); err == nil {
				s.ClusterIPs = append(s.ClusterIPs, addr)
			} else if word == "publish" {
				s.PublishNotReady = true
			} else {
				s.Ports = append(s.Ports, portOf(t, word))
			}
		}
		if kind == "import" && len(s.ClusterIPs) == 0 {
			s.Kind = zone.Headless
		}
		b.SetService(s)
	}
}

func addrs(words []string) []netip.Addr {
	var all []netip.Addr
	for _, word := range words {
		all = append(all, netip.MustParseAddr(word))
	}
	return all
}

func sliceOf(t testing.TB, key zone.Key, words []string) *zone.Slice {
	t.Helper()
	s := &zone.Slice{Key: key, Service: words[0]}
	for _, word := range words[1:] {
		text, ready := strings.CutPrefix(word, "!")
		text, pod, _ := strings.Cut(text, "+")
		text, topology, _ := strings.Cut(text, "@")
		text, hostname, _ := strings.Cut(text, "=")
		addr, err := netip.ParseAddr(text)
		if err != nil {
			s.Ports = append(s.Ports, portOf(t, word))
			continue
		}
		s.Endpoints = append(s.Endpoints, zone.Endpoint{Addr: addr, Hostname: hostname, Zone: topology, Pod: pod, Ready: !ready})
	}
	return s
}

func portOf(t testing.TB, word string) zone.Port {
	t.Helper()
	name, number, named := strings.Cut(word, ":")
	if !named {
		name, number = "", word
	}
	number, protocol, _ := strings.Cut(number, "/")
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		t.Fatalf("%q is neither an address nor a port", word)
	}
	return zone.Port{Name: name, Number: uint16(n), Protocol: map[string]zone.Protocol{"udp": zone.UDP, "sctp": zone.SCTP}[protocol]}
}

var newest = time.Unix(1_700_000_000, 0)

// resolverOf returns a Resolver for those objects. By default records are not rotated, names
// outside the cluster must not be queried, and TTLs are those of the profile.
func resolverOf(t testing.TB, lines string, change func(*zone.Config)) *zone.Resolver {
	t.Helper()
	config := zone.Config{
		Domains: names("cluster.local"), TTL: -1, NegativeTTL: -1,
		Next: never(t), Rotate: func(int) int { return 0 },
	}
	if change != nil {
		change(&config)
	}
	resolver := zone.NewResolver(config)
	resolver.Set(cluster(t, lines).Snapshot(newest))
	return resolver
}
