package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/kubewire"
)

var endpoints = source{kind: kubewire.EndpointSlices}

// sliceAt returns a slice of Service a with one address, which identifies the version.
func sliceAt(name, addr string, version uint64) kubewire.Object {
	key := zone.Key{Namespace: "n", Name: name}
	return kubewire.Object{Key: key, Version: version, Value: &zone.Slice{
		Key: key, Service: "a", Endpoints: []zone.Endpoint{{Addr: netip.MustParseAddr(addr)}},
	}}
}

// addrsOf returns the address of every slice in the store.
func addrsOf(s *store) map[string]string {
	all := make(map[string]string)
	for slice := range s.builder.Snapshot(time.Now()).Slices() {
		all[slice.Name] = slice.Endpoints[0].Addr.String()
	}
	return all
}

// tell returns a report without a source.
func tell(do step, version uint64, object ...kubewire.Object) report {
	r := report{step: do, version: version}
	if len(object) > 0 {
		r.object = object[0]
	}
	return r
}

// relist returns the reports of a complete list of a source.
func relist(as step, version uint64, objects ...kubewire.Object) []report {
	all := []report{tell(as, 0)}
	for _, o := range objects {
		all = append(all, tell(listed, 0, o))
	}
	return append(all, tell(complete, version))
}

func TestStore(t *testing.T) {
	type told struct {
		by source
		of []report
	}
	one, two := sliceAt("s1", "10.0.0.1", 10), sliceAt("s2", "10.0.0.2", 11)
	rows := []struct {
		name string
		told []told
		want map[string]string
		lost uint64
	}{
		{
			"a relist removes missing objects",
			[]told{{endpoints, relist(listing, 20, one, two)}, {endpoints, relist(listing, 30, two)}},
			map[string]string{"s2": "10.0.0.2"},
			0,
		},
		{
			"broken relist removes nothing",
			[]told{
				{endpoints, relist(listing, 20, one)},
				{endpoints, []report{tell(listing, 0), tell(broken, 0)}},
				{endpoints, relist(listing, 30, one)},
			},
			map[string]string{"s1": "10.0.0.1"},
			0,
		},
		{
			"comparison finds changes that the watch lost",
			[]told{
				{endpoints, relist(listing, 20, one)},
				{endpoints, []report{tell(reached, 40)}},
				{endpoints, relist(comparing, 40, sliceAt("s1", "10.0.0.9", 35), sliceAt("s3", "10.0.0.3", 36))},
			},
			map[string]string{"s1": "10.0.0.9", "s3": "10.0.0.3"},
			2,
		},
		{
			"changes that the watch reports later are not lost",
			[]told{
				{endpoints, relist(listing, 20, one, two)},
				{endpoints, relist(comparing, 40, sliceAt("s1", "10.0.0.9", 35), sliceAt("s3", "10.0.0.3", 36))},
				{endpoints, []report{
					tell(watching, 0),
					tell(deleted, 0, sliceAt("s2", "10.0.0.2", 34)),
					tell(changed, 0, sliceAt("s1", "10.0.0.9", 35)),
					tell(changed, 0, sliceAt("s3", "10.0.0.3", 36)),
					tell(reached, 50),
				}},
			},
			map[string]string{"s1": "10.0.0.9", "s3": "10.0.0.3"},
			0,
		},
		{
			"watch misses a deletion",
			[]told{
				{endpoints, relist(listing, 20, one, two)},
				{endpoints, relist(comparing, 40, one)},
				{endpoints, []report{tell(watching, 0), tell(reached, 39)}},
				{endpoints, []report{tell(reached, 40)}},
			},
			map[string]string{"s1": "10.0.0.1"},
			1,
		},
		{
			"watch has not reached a deletion",
			[]told{{endpoints, relist(listing, 20, one, two)}, {endpoints, relist(comparing, 40, one)}, {endpoints, []report{tell(reached, 39)}}},
			map[string]string{"s1": "10.0.0.1", "s2": "10.0.0.2"},
			0,
		},
		{
			"lower versions after a restore",
			[]told{
				{endpoints, relist(listing, 20, sliceAt("s1", "10.0.0.9", 19))},
				{endpoints, []report{tell(rewound, 5)}},
				{endpoints, relist(listing, 12, one)},
			},
			map[string]string{"s1": "10.0.0.1"},
			0,
		},
		{
			"source that is no longer watched",
			[]told{{source{kind: kubewire.EndpointSlices, fields: "metadata.name=s1"}, relist(listing, 20, one)}},
			map[string]string{},
			0,
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := newStore(Features{})
			s.assign([]source{endpoints})
			for _, told := range row.told {
				for _, r := range told.of {
					r.source = told.by
					if r.step == broken {
						r.err = errors.New("broken")
					}
					s.apply(r)
				}
			}
			if diff := cmp.Diff(row.want, addrsOf(s)); diff != "" || s.totals.Lost != row.lost {
				t.Errorf("%d lost, want %d\n%s", s.totals.Lost, row.lost, diff)
			}
		})
	}
}

func TestAssign(t *testing.T) {
	s := newStore(Features{})
	old := source{kind: kubewire.Endpoints}
	s.assign([]source{old})
	for _, r := range relist(listing, 20, kubewire.Object{
		Key:   zone.Key{Namespace: "n", Name: "e"},
		Value: []zone.Slice{{Endpoints: []zone.Endpoint{{Addr: netip.MustParseAddr("10.0.0.1")}}}},
	}) {
		r.source = old
		s.apply(r)
	}
	if len(addrsOf(s)) != 1 || !s.synced() {
		t.Fatalf("got addresses %v", addrsOf(s))
	}
	s.assign([]source{endpoints})
	if len(addrsOf(s)) != 0 || s.synced() {
		t.Errorf("the API has EndpointSlices, but %v of Endpoints remain", addrsOf(s))
	}
	for _, r := range relist(listing, 20, sliceAt("s1", "10.0.0.1", 10), sliceAt("s2", "10.0.0.2", 10)) {
		r.source = endpoints
		s.apply(r)
	}
	another := endpoints
	another.fields = "metadata.name=s1"
	s.assign([]source{another})
	if len(addrsOf(s)) != 2 || s.progress[kubewire.EndpointSlices].position != 0 || !s.synced() {
		t.Errorf("another selector: got addresses %v", addrsOf(s))
	}
	for _, r := range relist(listing, 30, sliceAt("s1", "10.0.0.1", 10)) {
		r.source = another
		s.apply(r)
	}
	if got := addrsOf(s); len(got) != 1 || got["s1"] == "" {
		t.Errorf("the selector selects s1, got %v", got)
	}
}

// TestDroppedOnce: a list that checks the watch does not count a dropped object again and reports
// no lost change.
func TestDroppedOnce(t *testing.T) {
	s := newStore(Features{})
	s.assign([]source{endpoints})
	big := kubewire.Object{Key: zone.Key{Namespace: "n", Name: "big"}, Version: 7, TooBig: kubewire.ErrTooBig}
	for _, r := range append(relist(listing, 20, big), relist(comparing, 20, big)...) {
		r.source = endpoints
		s.apply(r)
	}
	if s.totals.Dropped != 1 || s.totals.Lost != 0 {
		t.Errorf("got counts %+v", s.totals)
	}
}

// TestPodNames: Pod names are kept only if Features.PodNames is set.
func TestPodNames(t *testing.T) {
	for _, want := range []string{"", "web-7d9f8c6b5-x7x9k"} {
		s := newStore(Features{PodNames: want != ""})
		for kind, value := range map[kubewire.Kind]any{
			kubewire.EndpointSlices: &zone.Slice{Key: zone.Key{Namespace: "n", Name: "s"}, Service: "a", Endpoints: []zone.Endpoint{{Addr: netip.MustParseAddr("10.0.0.1"), Pod: "web-7d9f8c6b5-x7x9k"}}},
			kubewire.Endpoints:      []zone.Slice{{Endpoints: []zone.Endpoint{{Addr: netip.MustParseAddr("10.0.0.1"), Pod: "web-7d9f8c6b5-x7x9k"}}}},
		} {
			by := source{kind: kind}
			s.assign([]source{by})
			s.apply(report{source: by, step: changed, object: kubewire.Object{Key: zone.Key{Namespace: "n", Name: "s"}, Value: value}})
			for slice := range s.builder.Snapshot(time.Now()).Slices() {
				if got := slice.Endpoints[0].Pod; got != want {
					t.Errorf("%v: %q, want %q", kind, got, want)
				}
			}
			if s.builder.Snapshot(time.Now()).Counts().Slices != 1 {
				t.Errorf("%v: unknown", kind)
			}
		}
	}
}

func TestStoreIsBounded(t *testing.T) {
	s := newStore(Features{})
	services := source{kind: kubewire.Services}
	s.assign([]source{services})
	s.limit = 1
	for _, name := range []string{"one", "one-too-many", "one"} {
		key := zone.Key{Namespace: "n", Name: name}
		s.apply(report{source: services, step: changed, object: kubewire.Object{Key: key, Value: &zone.Service{Key: key}}})
	}
	if s.totals.Dropped != 1 || s.builder.Snapshot(time.Now()).Counts().Services != 1 {
		t.Errorf("got counts %+v", s.totals)
	}
}

// TestStoreIsBoundedInOctets: an object that does not fit is dropped together with its old value.
// Other objects stay, and a deleted one frees its bytes.
func TestStoreIsBoundedInOctets(t *testing.T) {
	s := newStore(Features{})
	slices := source{kind: kubewire.EndpointSlices}
	s.assign([]source{slices})
	s.room = 100_000
	known := func() int { return s.builder.Snapshot(time.Now()).Counts().Endpoints }
	tell := func(name string, endpoints int, err error) {
		key := zone.Key{Namespace: "n", Name: name}
		o := kubewire.Object{Key: key, TooBig: err}
		if err == nil {
			v := &zone.Slice{Key: key, Service: "web"}
			for i := range endpoints {
				v.Endpoints = append(v.Endpoints, zone.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), Ready: true})
			}
			o.Value = v
		}
		s.apply(report{source: slices, step: changed, object: o})
	}
	for _, row := range []struct {
		name      string
		endpoints int
		err       error
		known     int
		dropped   uint64
	}{
		{"one", 100, nil, 100, 0},
		{"large", 10_000, nil, 100, 1},
		{"two", 500, nil, 600, 1},
		{"one", 10_000, nil, 500, 2}, // its old endpoints are no longer served
		{"one", 200, nil, 700, 2},
		{"two", 0, kubewire.ErrTooBig, 200, 3},
		{"three", 700, nil, 900, 3},
	} {
		tell(row.name, row.endpoints, row.err)
		if known() != row.known || s.totals.Dropped != row.dropped {
			t.Errorf("%s of %d: %d endpoints, %d dropped", row.name, row.endpoints, known(), s.totals.Dropped)
		}
	}
	for _, name := range []string{"one", "two", "three"} {
		s.apply(report{source: slices, step: deleted, object: kubewire.Object{Key: zone.Key{Namespace: "n", Name: name}}})
	}
	if s.room != 100_000 {
		t.Errorf("got %d free bytes at the end", s.room)
	}
}

// TestNamespaceShare: a namespace cannot take the room of others. A user who filled it made new
// Services of other namespaces unknown, and known ones when their slices grew.
func TestNamespaceShare(t *testing.T) {
	s := newStore(Features{})
	slices := source{kind: kubewire.EndpointSlices}
	s.assign([]source{slices})
	s.room, s.share = 100_000, 50_000
	tell := func(namespace, name string, endpoints int) {
		key := zone.Key{Namespace: namespace, Name: name}
		v := &zone.Slice{Key: key, Service: "web"}
		for i := range endpoints {
			v.Endpoints = append(v.Endpoints, zone.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), Ready: true})
		}
		s.apply(report{source: slices, step: changed, object: kubewire.Object{Key: key, Value: v}})
	}
	tell("shop", "web", 10)
	for i := range 50 {
		tell("greedy", fmt.Sprint("web-", i), 100)
	}
	if s.totals.Dropped == 0 || s.progress[slices.kind].drops.why != errNoShare {
		t.Errorf("got %d dropped objects, the last one because of %v", s.totals.Dropped, s.progress[slices.kind].drops.why)
	}
	before := s.totals.Dropped
	tell("shop", "web", 200)
	tell("bank", "web", 100)
	if s.totals.Dropped != before {
		t.Errorf("another namespace's objects were dropped, the last one because of %v", s.progress[slices.kind].drops.why)
	}
	s.sweep(slices.kind, func(entry) bool { return true })
	if s.room != 100_000 || len(s.taken) > 0 {
		t.Errorf("at the end, %d bytes are free, and taken is %v", s.room, s.taken)
	}
}

// TestDropIsSaid: a dropped object is logged once and appears in the state.
func TestDropIsSaid(t *testing.T) {
	var log bytes.Buffer
	o := newOwner(New(Config{Log: slog.New(slog.NewTextHandler(&log, nil))}))
	slices := source{kind: kubewire.EndpointSlices}
	o.store.assign([]source{slices})
	for range 3 {
		key := zone.Key{Namespace: "n", Name: "big\x1b"}
		o.apply(report{source: slices, step: changed, object: kubewire.Object{Key: key, TooBig: kubewire.ErrTooBig}})
	}
	const want = `EndpointSlice "n/big\x1b": object is too big`
	if got := o.assess(time.Now()); got.LastDrop != want || got.Dropped != 3 {
		t.Errorf("got Dropped %d, LastDrop %q", got.Dropped, got.LastDrop)
	}
	if strings.Count(log.String(), "dropped objects of the cluster") != 1 {
		t.Errorf("got the log\n%s", &log)
	}
}
