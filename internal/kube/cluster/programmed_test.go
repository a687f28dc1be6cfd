package cluster

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/kubewire"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// TestProgrammedOutcome: which trigger times are plausible.
func TestProgrammedOutcome(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	headless := &zone.Service{Kind: zone.Headless, HasSelector: true}
	rows := []struct {
		name  string
		of    *zone.Service
		ago   time.Duration
		since time.Duration
		want  Programmed
		none  bool
	}{
		{"headless Service", headless, time.Second, time.Hour, Programmed{Headless: true, Took: time.Second, Slices: 1}, false},
		{"another", &zone.Service{HasSelector: true}, time.Second, time.Hour, Programmed{Took: time.Second, Slices: 1}, false},
		{"zero duration", headless, 0, time.Hour, Programmed{Headless: true, Slices: 1}, false},
		{"maximum duration", headless, time.Hour, 2 * time.Hour, Programmed{Headless: true, Took: time.Hour, Slices: 1}, false},
		{"above the maximum (clock in another time zone)", headless, time.Hour + 1, 2 * time.Hour, Programmed{Outcome: Past, Headless: true, Slices: 1}, false},
		{"age of the Service", headless, 20000 * time.Hour, 30000 * time.Hour, Programmed{Outcome: Past, Headless: true, Slices: 1}, false},
		{"before the daemon started", headless, time.Minute + 1, time.Minute, Programmed{Outcome: Past, Headless: true, Slices: 1}, false},
		{"since the daemon started", headless, time.Minute, time.Minute, Programmed{Headless: true, Took: time.Minute, Slices: 1}, false},
		{"clock skew", headless, -1, time.Hour, Programmed{Outcome: Future, Headless: true, Slices: 1}, false},
		{"far ahead", headless, -200 * 365 * 24 * time.Hour, time.Hour, Programmed{Outcome: Future, Headless: true, Slices: 1}, false},
		{"largest Duration", headless, 1<<63 - 1, time.Hour, Programmed{Outcome: Past, Headless: true, Slices: 1}, false},
		{"without a selector", &zone.Service{Kind: zone.Headless}, time.Second, time.Hour, Programmed{}, true},
		{"ExternalName", &zone.Service{Kind: zone.ExternalName, HasSelector: true}, time.Second, time.Hour, Programmed{}, true},
		{"no Service", nil, time.Second, time.Hour, Programmed{}, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, ok := programmed(row.of, now.Add(-row.ago), now, row.since)
			if ok == row.none || got != row.want {
				t.Errorf("%+v, %v", got, ok)
			}
		})
	}
}

// TestAwaited: which reports are changes to be timed.
func TestAwaited(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(1_700_000_000+second, 0).UTC() }
	// one returns the slice at a version, with its own address and a trigger time at second. 0
	// means no trigger time.
	one := func(version uint64, second int64) kubewire.Object {
		o := sliceAt("s1", fmt.Sprintf("10.0.0.%d", version), version)
		if second > 0 {
			o.Triggered = at(second)
		}
		return o
	}
	changes := func(objects ...kubewire.Object) (all []report) {
		for _, o := range objects {
			all = append(all, tell(changed, 0, o))
		}
		return all
	}
	again := one(11, 2)
	again.Version = 12
	rows := []struct {
		name string
		told []report
		want []int64
	}{
		{"first list", relist(listing, 20, one(10, 1)), nil},
		{"a new slice", changes(one(10, 1)), []int64{1}},
		{"every change is reported once", changes(one(10, 1), one(11, 2), one(12, 3)), []int64{1, 2, 3}},
		{"change of a listed object", slices.Concat(relist(listing, 20, one(10, 1)), changes(one(21, 2))), []int64{2}},
		{"unchanged listed object", slices.Concat(relist(listing, 20, one(10, 1)), changes(one(10, 1))), nil},
		{"change with the same time as the list", slices.Concat(relist(listing, 20, one(10, 1)), changes(one(21, 1))), nil},
		{"second change with the same time", changes(one(10, 1), one(11, 1)), []int64{1}},
		{"change without a time", changes(one(10, 0)), nil},
		{"time reappears after a change without one", changes(one(10, 1), one(11, 0), one(12, 1)), []int64{1}},
		{"change that does not affect DNS", changes(one(11, 1), again), []int64{1}},
		{"change after one that does not affect DNS", changes(one(11, 1), again, one(13, 3)), []int64{1, 3}},
		{"two times within one second", changes(one(10, 1), func() kubewire.Object {
			o := one(11, 1)
			o.Triggered = o.Triggered.Add(time.Nanosecond)
			return o
		}()), []int64{1, 1}},
		{"change found by a relist", slices.Concat(relist(listing, 20, one(10, 1)), relist(listing, 30, one(21, 2))), nil},
		{"watch repeats a change found by a relist", slices.Concat(relist(listing, 30, one(21, 2)), changes(one(31, 2))), nil},
		{"change found by a comparison", slices.Concat(
			relist(listing, 20, one(10, 1)), []report{tell(reached, 40)}, relist(comparing, 40, one(35, 2)),
		), nil},
		{"deleted slice", slices.Concat(changes(one(10, 1)), []report{tell(deleted, 0, one(11, 2))}), []int64{1}},
		{"slice created again", slices.Concat(changes(one(10, 1)), []report{tell(deleted, 0, one(11, 1))}, changes(one(12, 3))), []int64{1, 3}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := newStore(Features{})
			s.assign([]source{endpoints})
			for _, r := range row.told {
				r.source = endpoints
				s.apply(r)
			}
			var got []int64
			for _, a := range s.awaited {
				if a.service != (zone.Key{Namespace: "n", Name: "a"}) {
					t.Errorf("got a change of %v", a.service)
				}
				got = append(got, a.at.Unix()-at(0).Unix())
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAwaitedBound: changes over the limit are counted.
func TestAwaitedBound(t *testing.T) {
	s := newStore(Features{})
	s.assign([]source{endpoints})
	for i := range maxAwaited + 7 {
		o := sliceAt(fmt.Sprintf("s%d", i), "10.0.0.1", uint64(i+1))
		o.Triggered = time.Now()
		s.apply(report{source: endpoints, step: changed, object: o})
	}
	if len(s.awaited) != maxAwaited || s.tooMany != 7 {
		t.Errorf("got %d waiting changes, %d over the limit", len(s.awaited), s.tooMany)
	}
}

// TestEntrySize: up to a million objects of each kind have an entry.
func TestEntrySize(t *testing.T) {
	if size := reflect.TypeFor[entry]().Size(); size != 12 {
		t.Errorf("got an entry size of %d bytes, want 12", size)
	}
}

// programmedLog collects the changes that a Watcher reports.
type programmedLog struct {
	mu  sync.Mutex // guards all
	all []Programmed
}

func (l *programmedLog) add(p Programmed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, p)
}

// take returns the changes since the last call, with times rounded down to seconds.
func (l *programmedLog) take() (all []Programmed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.all {
		p.Took = p.Took.Truncate(time.Second)
		all = append(all, p)
	}
	l.all = nil
	return all
}

// timedService is a headless Service with a selector.
const timedService = `{apiVersion: v1, kind: Service, metadata: {name: db, namespace: alpha}, spec: {clusterIP: None, selector: {app: db}}}`

// triggeredSlice is a slice of timedService with one address and a trigger time that long ago.
func triggeredSlice(name, addr string, ago time.Duration) string {
	return kubetest.HeadlessSlice("alpha", "db", name, addr, time.Now().Add(-ago))
}

// TestProgrammed goes from the API server to the counter. A change that a watch reports is timed
// when it is published, even after an outage. Objects that existed before are not timed: in the
// first list, in a relist, or from a watch that resumes from an earlier run's state.
func TestProgrammed(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := newFakeWorld(t)
		log := new(programmedLog)
		w.config.Programmed = log.add
		w.server.Apply(readFixture(t, "node-dns"))
		w.server.Apply(timedService + "\n---" + triggeredSlice("db-t", "172.30.9.1", 0))
		settled := func(what string, want ...Programmed) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if diff := cmp.Diff(want, log.take()); diff != "" {
				t.Errorf("%s: %s\n%s", what, diff, w.log)
			}
		}
		timed := func(took time.Duration) Programmed { return Programmed{Headless: true, Took: took, Slices: 1} }
		w.start()
		settled("the first list")

		w.server.Apply(triggeredSlice("db-t", "172.30.9.2", 7*time.Second))
		settled("a change", timed(7*time.Second))
		w.server.Apply(strings.Replace(triggeredSlice("db-t", "172.30.9.3", 0), "last-change", "other", 1))
		settled("a change without a time")
		w.server.Apply(strings.Replace(triggeredSlice("db-o", "172.30.9.3", 0), "service-name: db", "service-name: hl", 1))
		settled("a change of a Service without a selector")
		w.server.Apply(triggeredSlice("db-t", "172.30.9.4", 0) + "---" + triggeredSlice("db-u", "172.30.9.5", 30*time.Second))
		settled("two changes in one state", timed(0), timed(30*time.Second))
		w.server.Apply(triggeredSlice("db-t", "172.30.9.6", -time.Second))
		settled("a change in the future", Programmed{Outcome: Future, Headless: true, Slices: 1})
		w.server.Apply(triggeredSlice("db-t", "172.30.9.7", 24*time.Hour))
		settled("an old change", Programmed{Outcome: Past, Headless: true, Slices: 1})

		network.SetDown(true)
		w.server.Apply(triggeredSlice("db-t", "172.30.9.8", 0))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if told := log.take(); told != nil {
			t.Errorf("API server down: got %+v, want nothing", told)
		}
		network.SetDown(false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if told := log.take(); len(told) != 1 || told[0].Outcome != Timed || told[0].Took < 2*time.Minute {
			t.Errorf("change during an outage: got %+v", told)
		}

		network.SetDown(true)
		w.server.Apply(triggeredSlice("db-t", "172.30.9.9", 0))
		w.server.Compact()
		network.SetDown(false)
		settled("a relist")
		if got := endpointsOf(w.snapshot(), "alpha", "db"); got != 2 {
			t.Errorf("got %d endpoints after the relist, want 2", got)
		}

		w.stop()
		w.server.Apply(triggeredSlice("db-t", "172.30.9.10", 0))
		time.Sleep(time.Second)
		w.start()
		settled("while there was no daemon", Programmed{Outcome: Past, Headless: true, Slices: 1})
	})
}
