package kubewire

import (
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// pod decodes a core/v1 Pod: 1 metadata, 2 spec, 3 status. A finished Pod has no addresses,
// whatever its status says: another Pod may have them by now.
func (d *Decoder) pod(message []byte) (Object, error) {
	var m meta
	var spec podSpec
	var ended bool
	err := each(message, func(f *fields) (err error) {
		switch {
		case f.isBytes(1):
			err = m.parse(f.bytes)
		case f.isBytes(2):
			err = spec.parse(f.bytes)
		case f.isBytes(3):
			ended, err = d.podStatus(f.bytes)
		}
		return err
	})
	pod := spec.pod(m.key(d), ended, d.addrs)
	return Object{Key: pod.Key, Version: m.version, Value: pod}, err
}

// podSpec has the fields that are read of a PodSpec.
type podSpec struct {
	hostNetwork bool
	dnsPolicy   []byte
	searches    bool // dnsConfig has search domains, which follow the kubelet's
}

// parse decodes 6 dnsPolicy, 11 hostNetwork and 26 dnsConfig (2 searches).
func (s *podSpec) parse(message []byte) error {
	f := fields{rest: message}
	for f.next() {
		switch {
		case f.isBytes(6):
			s.dnsPolicy = f.bytes
		case f.isVarint(11):
			s.hostNetwork = f.value != 0
		case f.isBytes(26):
			config := fields{rest: f.bytes}
			for config.next() {
				s.searches = s.searches || config.isBytes(2)
			}
			if config.err != nil {
				return config.err
			}
		}
	}
	return f.err
}

// pod builds a zone.Pod. It gets the addresses only if they are its own.
func (s *podSpec) pod(key zone.Key, ended bool, addrs []netip.Addr) *zone.Pod {
	policy := string(s.dnsPolicy)
	pod := &zone.Pod{Key: key, OwnSearch: s.searches || policy == "None" || policy == "Default"}
	if !s.hostNetwork && !ended {
		pod.Addrs = slices.Clone(addrs)
	}
	return pod
}

func hasEnded(phase string) bool { return phase == "Succeeded" || phase == "Failed" }

// podStatus decodes a PodStatus, with its addresses into the scratch: 1 phase, 6 podIP, 12 podIPs
// (1 ip; since Kubernetes 1.16).
func (d *Decoder) podStatus(message []byte) (ended bool, err error) {
	var podIP []byte
	f := fields{rest: message}
	for f.next() {
		switch {
		case f.isBytes(1):
			ended = hasEnded(string(f.bytes))
		case f.isBytes(6):
			podIP = f.bytes
		case f.isBytes(12):
			ip, err := field(f.bytes, 1)
			if err != nil {
				return ended, err
			}
			d.addAddr(ip)
		}
	}
	if len(d.addrs) == 0 {
		d.addAddr(podIP)
	}
	return ended, f.err
}
