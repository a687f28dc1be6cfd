package kubewire

import (
	"slices"

	"github.com/node-dns/node-dns/internal/zone"
)

// pod reads a core/v1 Pod: 1 metadata, 2 spec (11 hostNetwork), 3 status. A Pod that has ended has no addresses any
// more, whatever its status says: they may be another's by now.
func (d *Decoder) pod(message []byte) (Object, error) {
	var m meta
	var hostNetwork, ended bool
	d.addrs = d.addrs[:0]
	f := fields{rest: message}
	for f.next() {
		var err error
		switch {
		case f.isBytes(1):
			err = m.parse(f.bytes)
		case f.isBytes(2):
			spec := fields{rest: f.bytes}
			for spec.next() {
				if spec.isVarint(11) {
					hostNetwork = spec.value != 0
				}
			}
			err = spec.err
		case f.isBytes(3):
			ended, err = d.podStatus(f.bytes)
		}
		if err != nil {
			return Object{}, err
		}
	}
	pod := &zone.Pod{Key: m.key(d)}
	if !hostNetwork && !ended {
		pod.Addrs = slices.Clone(d.addrs)
	}
	return Object{Key: pod.Key, Version: m.version, Value: pod}, f.err
}

func hasEnded(phase string) bool { return phase == "Succeeded" || phase == "Failed" }

// podStatus reads a PodStatus, its addresses into the scratch: 1 phase, 6 podIP, 12 podIPs (1 ip; since Kubernetes
// 1.16).
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
			ip := fields{rest: f.bytes}
			for ip.next() {
				if ip.isBytes(1) {
					d.addAddr(ip.bytes)
				}
			}
			if ip.err != nil {
				return ended, ip.err
			}
		}
	}
	if len(d.addrs) == 0 {
		d.addAddr(podIP)
	}
	return ended, f.err
}
