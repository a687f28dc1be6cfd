package cluster

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/kubewire"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

const (
	// saveEvery is the interval between saves while the state changes, so that it survives a crash
	// of the node.
	saveEvery = 5 * time.Minute
	// saveAgain is the interval between saves of an unchanged state, so that its age is not that of
	// the last change.
	saveAgain = 24 * time.Hour
)

// mostAhead is the accepted lead of a saved state's time over our clock. At boot a node may read a
// hardware clock in local time as UTC.
const mostAhead = 24 * time.Hour

// savedMagic starts a saved state and includes the format version. A SHA-256 of the rest follows.
const savedMagic = "node-dns cluster state 4\n"

// maxSaved bounds the file, in bytes. The objects in it take more memory than that.
const maxSaved = maxOctets

// Reasons why a saved state is not used.
var (
	errDamaged = errors.New("damaged or of another format version")
	errForeign = errors.New("from another cluster")
	errPartial = errors.New("without the names of pods, which the configuration now needs")
	errOld     = errors.New("older than snapshotMaxAge")
	errFuture  = errors.New("from the future")
)

// saved is the state as written to disk, with the position of each source, so that the watches
// resume there. Sequences are read and written element by element, because the state of a big
// cluster takes more memory as objects than as bytes.
type saved struct {
	cluster    [sha256.Size]byte
	at         time.Time
	shape      shape
	podNames   bool
	size       int // estimated bytes
	sources    []assignment
	services   iter.Seq[*zone.Service]
	slices     iter.Seq[*zone.Slice]
	namespaces iter.Seq[string]
	pods       iter.Seq[*zone.Pod]
	imports    iter.Seq[*zone.Service] // ServiceImports
	imported   iter.Seq[*zone.Slice]   // their slices
}

// save writes the state if it is due, or if this is the last save. A state that is still partly
// another cluster's is not saved.
func (o *owner) save(last bool) {
	due := last || time.Since(o.saved) >= saveEvery
	o.unsaved = o.w.unwritten.Swap(false) || o.unsaved
	if o.w.config.SnapshotFile == "" || !o.whole || !o.store.synced() || !due || !last && !o.unsaved && time.Since(o.saved) < saveAgain {
		return
	}
	data := o.snapshot().encode()
	o.savedSize = len(data)
	if last {
		o.saves <- data
		return
	}
	select {
	case o.saves <- data:
		o.saved, o.unsaved = time.Now(), false
	default: // the previous save is still running
	}
}

// asOf returns the last time at which the state was known to match the cluster.
func (o *owner) asOf() time.Time {
	switch {
	case !o.fromDisk.IsZero():
		return o.fromDisk
	case !o.failing.IsZero():
		return o.failing
	}
	return time.Now()
}

func (o *owner) snapshot() *saved {
	s := &saved{cluster: o.cluster, at: o.asOf(), shape: o.shape, podNames: o.store.podNames}
	for _, p := range o.store.progress {
		if p.source.kind == kubewire.ServiceImports && p.err != nil { // the saved ones would be outdated
			continue
		}
		if p.source.kind == kubewire.Nodes { // a single object that affects only the order is not worth saving
			continue
		}
		if p.synced && !p.isForbidden() { // without the right, Pods are unknown: the saved ones would be outdated
			s.sources = append(s.sources, assignment{p.source, p.position})
		}
	}
	from := o.store.builder.Snapshot(s.at)
	counts := from.Counts()
	s.size = max(1<<10+64*(counts.Services+counts.Slices+counts.Namespaces+counts.Pods)+20*counts.Endpoints, o.savedSize+o.savedSize/8)
	s.services, s.slices, s.namespaces, s.pods = from.Services(), from.Slices(), from.Namespaces(), from.Pods()
	isSource := func(kind kubewire.Kind) bool {
		return slices.ContainsFunc(s.sources, func(a assignment) bool { return a.source.kind == kind })
	}
	if !isSource(kubewire.Pods) {
		s.pods = func(func(*zone.Pod) bool) {} // no source of the next start would ever remove them
	}
	s.imports, s.imported = func(func(*zone.Service) bool) {}, func(func(*zone.Slice) bool) {}
	if imports := from.Imports(); imports != nil {
		s.imported = imports.Slices()
		if isSource(kubewire.ServiceImports) {
			s.imports = imports.Services()
		}
	}
	return s
}

// writeSaves writes states until saves is closed. It logs when writing starts to fail and when it
// works again.
func (w *Watcher) writeSaves(saves <-chan []byte) error {
	said := ""
	for data := range saves {
		_, err := (atomicfile.Writer{}).Write(w.config.SnapshotFile, data, 0o600)
		w.unwritten.Store(err != nil)
		switch {
		case err != nil && said != err.Error():
			said = err.Error()
			w.log.Warn("cannot save the cluster state for the next start", "error", err)
		case err == nil && said != "":
			said = ""
			w.log.Info("saving the cluster state for the next start again")
		}
	}
	return nil
}

// checkAge returns an error if a saved state of that age must not be served, because its addresses
// may belong to other Pods by now.
func (c Config) checkAge(age time.Duration) error {
	switch {
	case age < -mostAhead:
		return fmt.Errorf("%w by %v", errFuture, -age.Round(time.Second))
	case c.SnapshotMaxAge > 0 && age > c.SnapshotMaxAge:
		return fmt.Errorf("%w: %v", errOld, age.Round(time.Second))
	}
	return nil
}

// load restores the saved state of this cluster and publishes it as stale.
func (o *owner) load(cluster [sha256.Size]byte) {
	path := o.w.config.SnapshotFile
	if path == "" {
		return
	}
	data, err := readSaved(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var from *saved
	if err == nil {
		from, err = o.store.restore(data, cluster)
	}
	if err == nil {
		if err = o.w.config.checkAge(time.Since(from.at)); err != nil {
			o.refused = from.at
		}
	}
	if err == nil && o.store.podNames && !from.podNames {
		err = errPartial
	}
	if err != nil {
		o.store = newStore(o.w.config.Features)
		o.w.log.Warn("ignoring the saved cluster state", "file", path, "error", err)
		return
	}
	o.fromDisk = from.at
	o.shape = from.shape
	o.give()
	o.w.log.Info("serving the saved cluster state", "file", path,
		"age", time.Since(from.at).Round(time.Second), "services", o.store.builder.Snapshot(from.at).Counts().Services,
		journal.ClusterSnapshot.Attr())
}

// readSaved reads a saved state with one allocation of its size.
func readSaved(path string) ([]byte, error) {
	file, info, err := atomicfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info.Size() > maxSaved {
		return nil, fmt.Errorf("%d bytes; the limit is %d", info.Size(), maxSaved)
	}
	data := make([]byte, info.Size())
	_, err = io.ReadFull(file, data)
	return data, err
}

// loadAgain loads the saved state that load refused because of its age, once our clock has been set
// and shows another age. It does nothing once the server has answered.
func (o *owner) loadAgain() {
	switch {
	case o.refused.IsZero():
	case o.shape != unknownShape:
		o.refused = time.Time{}
	case o.w.config.checkAge(time.Since(o.refused)) == nil:
		o.refused = time.Time{}
		o.load(o.cluster)
	}
}

// restore decodes the output of encode into the store, if it is of that cluster. The store must be
// empty. After an error it must not be used. The returned state has no sequences.
func (s *store) restore(data []byte, cluster [sha256.Size]byte) (*saved, error) {
	body, ok := bytes.CutPrefix(data, []byte(savedMagic))
	if !ok || len(body) < sha256.Size {
		return nil, errDamaged
	}
	sum, body := body[:sha256.Size], body[sha256.Size:]
	if computed := sha256.Sum256(body); !bytes.Equal(sum, computed[:]) {
		return nil, errDamaged
	}
	r := savedReader{rest: body}
	from := r.header()
	if !r.failed && from.cluster != cluster {
		return nil, errForeign
	}
	for _, a := range from.sources {
		s.progress[a.source.kind] = &progress{source: a.source, position: a.position}
	}
	s.builder.SetImports(from.shape == importsShape)
	sliceKind := kubewire.EndpointSlices
	if from.shape == endpointsShape {
		sliceKind = kubewire.Endpoints
	}
	for r.more() {
		service := r.service()
		s.restoreObject(kubewire.Services, service.Key, service)
	}
	for r.more() {
		slice := r.slice()
		key := slice.Key // the subsets of an Endpoints object are named after it
		key.Name, _, _ = strings.Cut(key.Name, "/")
		s.restoreObject(sliceKind, key, slice)
	}
	for r.more() {
		s.restoreObject(kubewire.Namespaces, zone.Key{Name: r.text()}, kubewire.Namespace{})
	}
	for r.more() {
		pod := r.pod()
		s.restoreObject(kubewire.Pods, pod.Key, pod)
	}
	for r.more() {
		service := r.service()
		s.restoreObject(kubewire.ServiceImports, service.Key, service)
	}
	for r.more() {
		s.restoreImported(r.slice())
	}
	if r.failed || len(r.rest) > 0 {
		return nil, fmt.Errorf("%w: the checksum matches, but the content is invalid", errDamaged)
	}
	return from, nil
}

// restoreImported restores the slice of a ServiceImport. The slice may also be restored as a
// Service's.
func (s *store) restoreImported(slice *zone.Slice) {
	if _, exists := s.objects[kubewire.EndpointSlices][slice.Key]; !exists {
		octets := sizeOf(slice.Key, slice)
		s.take(slice.Key, octets)
		s.objects[kubewire.EndpointSlices][slice.Key] = entry{octets: uint32(octets)}
	}
	s.trim(slice)
	if imports := s.builder.Imports(); imports != nil {
		imports.SetSlice(slice)
	}
}

func (s *store) restoreObject(kind kubewire.Kind, key zone.Key, value any) {
	was := s.objects[kind][key]
	s.trim(value)
	octets := sizeOf(key, value) // for an Endpoints object, the size of one subset
	s.take(key, octets)
	s.objects[kind][key] = entry{octets: was.octets + uint32(octets)}
	s.build(kind, key, value)
}
