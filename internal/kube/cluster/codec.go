package cluster

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"net/netip"
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/kubewire"
)

// encode writes the state: numbers as varints, strings and lists after their length, sequences as
// writeEach does.
func (s *saved) encode() []byte {
	w := savedWriter(make([]byte, 0, s.size))
	w = append(w, savedMagic...)
	start := len(w)
	w = append(w, make([]byte, sha256.Size)...)
	body := len(w)
	w = append(w, s.cluster[:]...)
	w.number(uint64(s.at.Unix()))
	w.number(uint64(s.shape))
	w.truth(s.podNames)
	w.number(uint64(len(s.sources)))
	for _, a := range s.sources {
		w.number(uint64(a.source.kind))
		w.text(a.source.fields)
		w.number(a.position)
	}
	writeEach(&w, s.services, w.service)
	writeEach(&w, s.slices, w.slice)
	writeEach(&w, s.namespaces, w.text)
	writeEach(&w, s.pods, w.pod)
	writeEach(&w, s.imports, w.service)
	writeEach(&w, s.imported, w.slice)
	sum := sha256.Sum256(w[body:])
	copy(w[start:], sum[:])
	return w
}

// writeEach writes a sequence: a 1 before each element, and a 0 at the end.
func writeEach[T any](w *savedWriter, all iter.Seq[T], write func(T)) {
	for one := range all {
		w.truth(true)
		write(one)
	}
	w.truth(false)
}

type savedWriter []byte

func (w *savedWriter) number(n uint64) { *w = binary.AppendUvarint(*w, n) }

func (w *savedWriter) text(s string) {
	w.number(uint64(len(s)))
	*w = append(*w, s...)
}

func (w *savedWriter) truth(b bool) {
	if b {
		w.number(1)
	} else {
		w.number(0)
	}
}

func (w *savedWriter) key(k zone.Key) {
	w.text(k.Namespace)
	w.text(k.Name)
}

func (w *savedWriter) addr(a netip.Addr) { w.text(string(a.AsSlice())) }

func (w *savedWriter) addrs(addrs []netip.Addr) {
	w.number(uint64(len(addrs)))
	for _, a := range addrs {
		w.addr(a)
	}
}

func (w *savedWriter) ports(ports []zone.Port) {
	w.number(uint64(len(ports)))
	for _, p := range ports {
		w.text(p.Name)
		w.number(uint64(p.Number))
		w.number(uint64(p.Protocol))
	}
}

func (w *savedWriter) service(s *zone.Service) {
	w.key(s.Key)
	w.number(uint64(s.Kind))
	w.addrs(s.ClusterIPs)
	w.text(s.ExternalName)
	w.ports(s.Ports)
	w.truth(s.PublishNotReady)
	w.truth(s.HasSelector)
}

func (w *savedWriter) slice(s *zone.Slice) {
	w.key(s.Key)
	w.text(s.Service)
	w.text(s.Cluster)
	w.ports(s.Ports)
	w.number(uint64(len(s.Endpoints)))
	for _, e := range s.Endpoints {
		w.addr(e.Addr)
		w.text(e.Hostname)
		w.text(e.Pod)
		w.text(e.Zone)
		w.truth(e.Ready)
	}
}

func (w *savedWriter) pod(p *zone.Pod) {
	w.key(p.Key)
	w.addrs(p.Addrs)
	w.truth(p.OwnSearch)
}

// savedReader reads the output of a savedWriter. After a failure it reads zeros.
type savedReader struct {
	rest   []byte
	failed bool
}

func (r *savedReader) number(limit uint64) uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > limit || r.failed {
		r.failed = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// count reads the length of a list. Each element takes at least one byte.
func (r *savedReader) count() int { return int(r.number(uint64(len(r.rest)))) }

func (r *savedReader) text() string {
	n := r.count()
	if n > len(r.rest) { // the length itself took a byte
		r.failed = true
		return ""
	}
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}

func (r *savedReader) truth() bool { return r.number(1) == 1 }

func (r *savedReader) key() zone.Key { return zone.Key{Namespace: r.text(), Name: r.text()} }

func (r *savedReader) addr() netip.Addr {
	a, ok := netip.AddrFromSlice([]byte(r.text()))
	r.failed = r.failed || !ok
	return a
}

// listOf reads a list, each element with read.
func listOf[T any](r *savedReader, read func() T) []T {
	var all []T
	for n := r.count(); n > 0 && !r.failed; n-- {
		all = append(all, read())
	}
	return all
}

func (r *savedReader) port() zone.Port {
	return zone.Port{Name: r.text(), Number: uint16(r.number(0xffff)), Protocol: zone.Protocol(r.number(uint64(zone.SCTP)))}
}

// more reports whether another element of a sequence follows.
func (r *savedReader) more() bool { return r.truth() && !r.failed }

// header reads a state up to the first sequence.
func (r *savedReader) header() *saved {
	s := new(saved)
	r.failed = copy(s.cluster[:], r.rest) < len(s.cluster)
	r.rest = r.rest[min(len(s.cluster), len(r.rest)):]
	s.at = time.Unix(int64(r.number(1<<40)), 0)
	s.shape = shape(r.number(uint64(importsShape)))
	s.podNames = r.truth()
	s.sources = listOf(r, r.assignment)
	return s
}

func (r *savedReader) assignment() assignment {
	return assignment{
		source:   source{kind: kubewire.Kind(r.number(uint64(kubewire.ServiceImports))), fields: r.text()},
		position: r.number(1<<64 - 1),
	}
}

func (r *savedReader) service() *zone.Service {
	return &zone.Service{
		Key: r.key(), Kind: zone.Kind(r.number(uint64(zone.ExternalName))), ClusterIPs: listOf(r, r.addr),
		ExternalName: r.text(), Ports: listOf(r, r.port), PublishNotReady: r.truth(), HasSelector: r.truth(),
	}
}

func (r *savedReader) slice() *zone.Slice {
	return &zone.Slice{Key: r.key(), Service: r.text(), Cluster: r.text(), Ports: listOf(r, r.port), Endpoints: listOf(r, r.endpoint)}
}

func (r *savedReader) pod() *zone.Pod {
	return &zone.Pod{Key: r.key(), Addrs: listOf(r, r.addr), OwnSearch: r.truth()}
}

func (r *savedReader) endpoint() zone.Endpoint {
	return zone.Endpoint{Addr: r.addr(), Hostname: r.text(), Pod: r.text(), Zone: r.text(), Ready: r.truth()}
}
