package cluster

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/atomicfile"
	"github.com/node-dns/node-dns/internal/kubewire"
	"github.com/node-dns/node-dns/internal/zone"
)

// saveEvery is how often the state is written while it changes, so that a node that goes down hard still knows it.
const saveEvery = 5 * time.Minute

// savedMagic begins a saved state; the number is the version of its format. A SHA-256 of all that follows it is next.
const savedMagic = "node-dns cluster state 1\n"

// Why a file is no saved state that can be used.
var (
	errDamaged = errors.New("damaged, or of another version")
	errForeign = errors.New("of another cluster")
)

// saved is a state as it is written: with how far each source had come, so that the watches go on from there.
type saved struct {
	cluster    [sha256.Size]byte
	at         time.Time
	shape      shape
	sources    []assignment
	services   []*zone.Service
	slices     []savedSlice
	namespaces []string
	pods       []*zone.Pod
}

type savedSlice struct {
	*zone.Slice
	slot slot
}

// save writes the state, when that is due or the end.
func (o *owner) save(last bool) {
	due := last || time.Since(o.saved) >= saveEvery
	if o.w.config.SnapshotFile == "" || !o.whole || !due || !last && !o.unsaved {
		return
	}
	data := o.snapshot().encode()
	if last {
		o.saves <- data
		return
	}
	select {
	case o.saves <- data:
		o.saved, o.unsaved = time.Now(), false
	default: // the one before is still being written
	}
}

// snapshot is what save writes.
func (o *owner) snapshot() *saved {
	s := &saved{cluster: o.cluster, at: time.Now(), shape: o.shape}
	for _, p := range o.store.slots {
		if p.synced {
			s.sources = append(s.sources, assignment{p.source, p.position})
		}
	}
	from := o.store.builder.Snapshot(s.at)
	for service := range from.Services() {
		s.services = append(s.services, service)
	}
	entries := o.store.objects[kubewire.EndpointSlices]
	for slice := range from.Slices() {
		at := sliceSlot // of an Endpoints
		if e, known := entries[slice.Key]; known {
			at = e.slot
		}
		s.slices = append(s.slices, savedSlice{slice, at})
	}
	for name := range from.Namespaces() {
		s.namespaces = append(s.namespaces, name)
	}
	for pod := range from.Pods() {
		s.pods = append(s.pods, pod)
	}
	return s
}

// writeSaves writes what comes, until there is no more.
func (w *Watcher) writeSaves(saves <-chan []byte) error {
	for data := range saves {
		if _, err := (atomicfile.Writer{}).Write(w.config.SnapshotFile, data, 0o600); err != nil {
			w.log.Warn("the state of the cluster cannot be kept for the next start", "error", err)
		}
	}
	return nil
}

// load makes the saved state of this cluster the state, and publishes it as stale.
func (o *owner) load(cluster [sha256.Size]byte) {
	path := o.w.config.SnapshotFile
	if path == "" {
		return
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var s *saved
	if err == nil {
		s, err = decodeSaved(data)
	}
	if err == nil && s.cluster != cluster {
		err = errForeign
	}
	if err != nil {
		o.w.log.Warn("the state of the cluster from before is not used", "file", path, "error", err)
		return
	}
	o.store.restore(s)
	o.shape, o.fromDisk = s.shape, s.at
	o.give()
	o.w.log.Info("serving the state of the cluster from before", "file", path, "age", time.Since(s.at).Round(time.Second),
		"services", len(s.services))
}

// restore makes s the state. The store must be empty.
func (s *store) restore(from *saved) {
	slices := kubewire.EndpointSlices
	if from.shape == endpointsShape {
		slices = kubewire.Endpoints
	}
	for _, a := range from.sources {
		s.slots[a.source.slot] = &progress{source: a.source, position: a.position}
	}
	add := func(kind kubewire.Kind, at slot, key zone.Key, value any) {
		s.objects[kind][key] = entry{slot: at, byName: byName(value)}
		s.count(key.Name, false, byName(value))
		s.build(kind, key, value)
	}
	for _, service := range from.services {
		add(kubewire.Services, serviceSlot, service.Key, service)
	}
	for _, slice := range from.slices {
		key := slice.Key // a subset of an Endpoints is named after it
		key.Name, _, _ = strings.Cut(key.Name, "/")
		add(slices, slice.slot, key, slice.Slice)
	}
	for _, name := range from.namespaces {
		add(kubewire.Namespaces, namespaceSlot, zone.Key{Name: name}, kubewire.Namespace{})
	}
	for _, pod := range from.pods {
		add(kubewire.Pods, podSlot, pod.Key, pod)
	}
}

// decodeSaved reads what encode has written.
func decodeSaved(data []byte) (*saved, error) {
	body, ok := bytes.CutPrefix(data, []byte(savedMagic))
	if !ok || len(body) < sha256.Size {
		return nil, errDamaged
	}
	sum, body := body[:sha256.Size], body[sha256.Size:]
	if computed := sha256.Sum256(body); !bytes.Equal(sum, computed[:]) {
		return nil, errDamaged
	}
	r := savedReader{rest: body}
	s := r.saved()
	if r.failed || len(r.rest) > 0 {
		return nil, fmt.Errorf("%w: its checksum is right and its content is not", errDamaged)
	}
	return s, nil
}
