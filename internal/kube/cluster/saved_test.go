package cluster

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/kubewire"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// TestRestart: a restarted Watcher resumes where it stopped. It lists nothing and misses no change.
func TestRestart(t *testing.T) {
	for _, old := range []bool{false, true} {
		fakeTime(t, func(t *testing.T) {
			w, _ := newFakeWorld(t)
			w.config.Features.AllPods = true
			if old {
				w.server.Old()
				w.server.Apply(readFixture(t, "openshift-3.11"))
			}
			w.server.Apply(readFixture(t, "node-dns"))
			w.start()
			time.Sleep(time.Minute)
			synctest.Wait()
			before := dump(w.snapshot())
			w.stop()
			asked := len(w.server.Requests())
			w.server.Delete("Service", "alpha", "web")
			w.start()
			time.Sleep(time.Minute)
			synctest.Wait()
			for _, r := range w.server.Requests()[asked:] {
				if isWholeList(r) {
					t.Errorf("listed: %+v", r)
				}
			}
			if s := w.watcher.State(); s.Phase != Synced || !s.FromDisk.IsZero() || s.Lost > 0 {
				t.Errorf("got state %+v", s)
			}
			after := dump(w.snapshot())
			for line := range before {
				if strings.Contains(line, "Name:web}") && strings.HasPrefix(line, "service") && strings.Contains(line, "alpha") {
					delete(before, line)
				}
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRestartWithoutServer: a node that starts while the control plane is down serves its last
// state and reports it as stale.
func TestRestartWithoutServer(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := newKnownWorld(t)
		w.stop()
		network.SetDown(true)
		w.start()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s := w.watcher.State()
		if got := w.snapshot(); got == nil || !got.IsStale() || !hasService("alpha", "web")(got) {
			t.Fatalf("got state %+v", s)
		}
		if s.Phase != Connecting || s.FromDisk.IsZero() || s.Counts.Services == 0 {
			t.Errorf("got state %+v", s)
		}
		w.wantLogged("msg=\"serving the saved cluster state", " condition=cluster-snapshot\n")
		w.wantLogged("msg=cluster phase=connecting ", " condition=cluster-away\n")
		// The server returns, restored from an old backup.
		w.server.Restore(kubetest.New().Backup())
		w.server.Apply(`{apiVersion: v1, kind: Service, metadata: {name: new, namespace: alpha}, spec: {clusterIP: 10.96.0.99}}`)
		network.SetDown(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.snapshot(); got.IsStale() || hasService("alpha", "web")(got) || !hasService("alpha", "new")(got) {
			t.Errorf("got state %+v", w.watcher.State())
		}
		if s := w.watcher.State(); s.Rewinds == 0 || s.Phase != Synced {
			t.Errorf("got state %+v", s)
		}
	})
}

// TestSavedAge: after a week without the API server, the addresses of a snapshot may belong to
// anyone.
func TestSavedAge(t *testing.T) {
	for _, row := range []struct {
		name   string
		passes time.Duration // between stop and next start
		max    time.Duration
		ahead  time.Duration // of the clock at the time of the save
		says   string        // empty if the state is served
	}{
		{name: "at the age limit", passes: time.Hour, max: time.Hour},
		{name: "above the age limit", passes: time.Hour + time.Second, max: time.Hour, says: "older than snapshotMaxAge: 1h0m1s"},
		{name: "no age limit", passes: 1000 * time.Hour},
		{name: "slightly in the future", ahead: mostAhead, max: time.Hour},
		{name: "far in the future", ahead: mostAhead + time.Minute, max: time.Hour, says: "from the future by 24h1m0s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := Config{SnapshotMaxAge: row.max}.checkAge(row.passes - row.ahead)
			if (err == nil) != (row.says == "") || err != nil && err.Error() != row.says {
				t.Errorf("got %v, want %q", err, row.says)
			}
		})
	}
	fakeTime(t, func(t *testing.T) {
		w, network := newKnownWorld(t)
		w.stop()
		network.SetDown(true)
		time.Sleep(time.Hour)
		w.config.SnapshotMaxAge = time.Hour - time.Second
		w.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.snapshot() != nil {
			t.Error("a snapshot over the age limit is served")
		}
		w.wantLogged("msg=\"ignoring the saved cluster state\" ", " error=\"older than snapshotMaxAge: 1h0m0s\"\n")
	})
}

// TestSavedFromTheFuture: a node whose clock is wrong at boot ignored its saved state until the
// next start, even after NTP had set the clock. The API server's certificate is not valid by such a
// clock, or the server is down too.
func TestSavedFromTheFuture(t *testing.T) {
	for _, answers := range []bool{false, true} {
		fakeTime(t, func(t *testing.T) {
			w, network := newKnownWorld(t)
			w.stop()
			data := []byte(readFile(t, w.config.SnapshotFile))
			header := data[:len(savedMagic)+sha256.Size]
			at := time.Now().Add(mostAhead + time.Hour)
			body := (*savedWriter)(new([]byte))
			*body = append(*body, data[len(header):][:sha256.Size]...)
			body.number(uint64(at.Unix()))
			rest := savedReader{rest: data[len(header)+sha256.Size:]}
			rest.number(1 << 40)
			*body = append(*body, rest.rest...)
			sum := sha256.Sum256(*body)
			if err := os.WriteFile(w.config.SnapshotFile, slices.Concat([]byte(savedMagic), sum[:], *body), 0o600); err != nil {
				t.Fatal(err)
			}
			network.SetDown(!answers)
			w.start()
			time.Sleep(59 * time.Minute)
			synctest.Wait()
			w.wantLogged("msg=\"ignoring the saved cluster state\" ", " error=\"from the future by 25h0m0s\"\n")
			if known := w.snapshot() != nil; known != answers {
				t.Errorf("the state is known: %v, want %v", known, answers)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			switch got := w.snapshot(); {
			case got == nil || !hasService("alpha", "web")(got):
				t.Error("the saved state is not served when the clock is right")
			case got.IsStale() == answers:
				t.Errorf("stale: %v, want %v", got.IsStale(), !answers)
			}
			if got := strings.Count(w.log.String(), "serving the saved cluster state"); got > 0 == answers {
				t.Errorf("the saved state was served %d times", got)
			}
			network.SetDown(false)
			time.Sleep(time.Minute)
			synctest.Wait()
			if s := w.watcher.State(); s.Phase != Synced || !s.FromDisk.IsZero() {
				t.Errorf("got state %+v", s)
			}
		})
	}
}

// TestSavedAsOf: a restart during an API server outage made an old state look new, and an unchanged
// state was as old as its last change.
func TestSavedAsOf(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := newKnownWorld(t)
		age := func(when string, want time.Duration) {
			t.Helper()
			data := []byte(readFile(t, w.config.SnapshotFile))
			of := [sha256.Size]byte(data[len(savedMagic)+sha256.Size:]) // the cluster hash comes first
			s, err := newStore(Features{}).restore(data, of)
			if err != nil {
				t.Fatal(err)
			}
			if got := time.Since(s.at); got < want || got > want+time.Minute {
				t.Errorf("%s the state is %v old, want %v", when, got, want)
			}
		}
		time.Sleep(saveAgain + time.Hour)
		synctest.Wait()
		age("after a day without a change", time.Hour)
		network.SetDown(true)
		time.Sleep(3 * time.Hour)
		w.stop()
		age("after three hours without the API server", 3*time.Hour)
		w.start()
		time.Sleep(time.Hour)
		w.stop()
		age("after a start without it", 4*time.Hour)
	})
}

// TestSavedWhileRunning: a changing state is saved from time to time, to survive a crash of the
// node.
func TestSavedWhileRunning(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := newFakeWorld(t)
		w.server.Apply(readFixture(t, "node-dns"))
		w.start()
		time.Sleep(judgeEvery + time.Second)
		synctest.Wait()
		first := readFile(t, w.config.SnapshotFile)
		time.Sleep(time.Hour)
		synctest.Wait()
		if readFile(t, w.config.SnapshotFile) != first {
			t.Error("an unchanged state was written")
		}
		w.server.Delete("Service", "alpha", "web")
		time.Sleep(judgeEvery + time.Second)
		synctest.Wait()
		if readFile(t, w.config.SnapshotFile) == first {
			t.Error("a change was not written")
		}
	})
}

// TestSavedAfterFailure: a state that could not be written, for lack of space for example, was not
// written again before the next change, or for a day.
func TestSavedAfterFailure(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := newFakeWorld(t)
		w.server.Apply(readFixture(t, "node-dns"))
		if err := os.Mkdir(w.config.SnapshotFile, 0o700); err != nil { // it cannot be replaced
			t.Fatal(err)
		}
		w.start()
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := strings.Count(w.log.String(), "cannot save the cluster state"); got != 1 {
			t.Errorf("%d log lines, want 1", got)
		}
		if err := os.Remove(w.config.SnapshotFile); err != nil {
			t.Fatal(err)
		}
		time.Sleep(saveEvery + judgeEvery)
		synctest.Wait()
		if readFile(t, w.config.SnapshotFile) == "" {
			t.Error("the state is not saved once that is possible")
		}
	})
}

// TestSavedUnusable: an unusable state is ignored, and the log gives the reason.
func TestSavedUnusable(t *testing.T) {
	rows := []struct {
		name  string
		spoil func(data []byte) []byte
		want  string
	}{
		{"corrupted byte", func(d []byte) []byte { d[len(d)/2] ^= 1; return d }, "damaged"},
		{"truncated", func(d []byte) []byte { return d[:len(d)-5] }, "damaged"},
		{"empty", func([]byte) []byte { return nil }, "damaged"},
		{"another version", func(d []byte) []byte { return bytes.Replace(d, []byte("state "), []byte("state 9"), 1) }, "another format version"},
		{"another cluster", func(d []byte) []byte {
			body := d[len(savedMagic)+sha256.Size:]
			body[0] ^= 1 // the cluster hash comes first
			sum := sha256.Sum256(body)
			copy(d[len(savedMagic):], sum[:])
			return d
		}, "another cluster"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			fakeTime(t, func(t *testing.T) {
				w, network := newKnownWorld(t)
				w.stop()
				spoilt := row.spoil([]byte(readFile(t, w.config.SnapshotFile)))
				if err := os.WriteFile(w.config.SnapshotFile, spoilt, 0o600); err != nil {
					t.Fatal(err)
				}
				network.SetDown(true)
				w.start()
				time.Sleep(time.Minute)
				synctest.Wait()
				if w.snapshot() != nil || strings.Count(w.log.String(), "ignoring the saved cluster state") != 1 || !strings.Contains(w.log.String(), row.want) {
					t.Errorf("got log\n%s", w.log)
				}
				network.SetDown(false)
				time.Sleep(time.Minute)
				synctest.Wait()
				if w.snapshot() == nil || w.snapshot().IsStale() {
					t.Error("not synced when the server is back")
				}
			})
		})
	}
}

// TestSavedNotRead: a file that no daemon wrote is not read. With a damaged size of gigabytes, the
// kernel killed each daemon at its start (MemoryMax=). A FIFO blocked the watch.
func TestSavedNotRead(t *testing.T) {
	for _, row := range []struct {
		name string
		make func(path string) error
		says string
	}{
		{"huge", func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(savedMagic), 0o600), os.Truncate(path, maxSaved+1))
		}, "134217729 bytes; the limit is 134217728"},
		{"a FIFO", func(path string) error { return unix.Mkfifo(path, 0o600) }, "expected a regular file, got a FIFO"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var log bytes.Buffer
			w := New(Config{SnapshotFile: filepath.Join(t.TempDir(), "cluster.snapshot"), Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err := row.make(w.config.SnapshotFile); err != nil {
				t.Fatal(err)
			}
			newOwner(w).load([sha256.Size]byte{})
			if !strings.Contains(log.String(), "ignoring the saved cluster state") || !strings.Contains(log.String(), row.says) {
				t.Errorf("got log %q, want %q", &log, row.says)
			}
		})
	}
}

// TestSavedKeepsEveryField: every field that DNS needs is saved. Add new fields here and to the
// codec.
func TestSavedKeepsEveryField(t *testing.T) {
	key := zone.Key{Namespace: "n", Name: "o"}
	port := zone.Port{Name: "http", Number: 80, Protocol: zone.SCTP}
	addr := netip.MustParseAddr("fd00::1")
	endpoint := zone.Endpoint{Addr: addr, Hostname: "h", Pod: "p", Zone: "z", Ready: true}
	service := &zone.Service{
		Key: key, Kind: zone.Headless, ClusterIPs: []netip.Addr{addr}, ExternalName: "e.test.",
		Ports: []zone.Port{port}, PublishNotReady: true, HasSelector: true,
	}
	slice := &zone.Slice{Key: key, Service: "o", Import: "i", Cluster: "c", Ports: []zone.Port{port}, Endpoints: []zone.Endpoint{endpoint}}
	pod := &zone.Pod{Key: key, Addrs: []netip.Addr{addr}, OwnSearch: true}
	for _, filled := range []any{port, endpoint, *service, *slice, *pod} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(filled)) {
			if reflect.ValueOf(filled).FieldByIndex(field.Index).IsZero() {
				t.Errorf("%T.%s is not covered by this test", filled, field.Name)
			}
		}
	}
	o := newOwner(New(Config{Features: Features{PodNames: true}}))
	o.shape = importsShape
	o.store.setImports(true)
	everything := sources(Features{AllPods: true}, "", importsShape)
	o.store.assign(everything)
	values := map[kubewire.Kind]any{
		kubewire.Services: service, kubewire.EndpointSlices: slice, kubewire.Pods: pod, kubewire.Namespaces: kubewire.Namespace{},
		kubewire.ServiceImports: service,
	}
	for _, s := range everything {
		for _, r := range relist(listing, 20, kubewire.Object{Key: key, Version: 7, Value: values[s.kind]}) {
			r.source = s
			o.store.apply(r)
		}
	}
	restored := newStore(Features{PodNames: true})
	if _, err := restored.restore(o.snapshot().encode(), o.cluster); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	before, after := dump(o.store.builder.Snapshot(now)), dump(restored.builder.Snapshot(now))
	if diff := cmp.Diff(before, after); diff != "" || len(before) != 6 {
		t.Errorf("%d objects\n%s", len(before), diff)
	}
	for _, s := range everything {
		if p := restored.progress[s.kind]; p == nil || p.source != s || p.position != 20 {
			t.Errorf("%+v is restored as %+v", s, p)
		}
	}
}

// TestForbiddenPodsAreNotSaved: after the right to Pods was revoked, saved Pods and their
// namespaces stayed forever if the next start wanted no Pods.
func TestForbiddenPodsAreNotSaved(t *testing.T) {
	o := newOwner(New(Config{}))
	o.shape = slicesShape
	wanted := sources(Features{AllPods: true}, "", slicesShape)
	o.store.assign(wanted)
	key := zone.Key{Namespace: "n", Name: "o"}
	pod := &zone.Pod{Key: key, Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	by := wanted[len(wanted)-1]
	for _, r := range append(relist(listing, 20, kubewire.Object{Key: key, Version: 7, Value: pod}),
		report{step: broken, err: &statusError{Status: kubewire.Status{Code: http.StatusForbidden}}}) {
		r.source = by
		o.store.apply(r)
	}
	restored := newStore(Features{})
	if _, err := restored.restore(o.snapshot().encode(), o.cluster); err != nil {
		t.Fatal(err)
	}
	if before, after := o.store.builder.Snapshot(time.Now()).Counts().Pods, restored.builder.Snapshot(time.Now()).Counts().Pods; before != 1 || after != 0 {
		t.Errorf("%d pods before, %d after restoring", before, after)
	}
}

// FuzzSaved: arbitrary bytes with a valid checksum are rejected, or are a state that is written
// back unchanged.
func FuzzSaved(f *testing.F) {
	o := newOwner(New(Config{Features: Features{PodNames: true}}))
	o.shape = slicesShape
	o.store.assign([]source{endpoints})
	for _, r := range relist(listing, 20, sliceAt("s1", "10.0.0.1", 5), sliceAt("s2", "fd00::1", 6)) {
		r.source = endpoints
		o.store.apply(r)
	}
	f.Add(o.snapshot().encode()[len(savedMagic)+sha256.Size:])
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		data := append(append([]byte(savedMagic), sum[:]...), body...)
		var cluster [sha256.Size]byte
		copy(cluster[:], body)
		first, ok := readAndWrite(data, cluster)
		if !ok {
			return
		}
		if again, ok := readAndWrite(first, cluster); !ok || len(again) != len(first) {
			t.Errorf("%x is written as %x, which is written as %x", body, first, again)
		}
	})
}

// readAndWrite restores data and returns it encoded again.
func readAndWrite(data []byte, cluster [sha256.Size]byte) ([]byte, bool) {
	o := newOwner(New(Config{Features: Features{PodNames: true}}))
	from, err := o.store.restore(data, cluster)
	if err != nil {
		return nil, false
	}
	for _, p := range o.store.progress {
		p.synced = true
	}
	o.shape, o.cluster = from.shape, cluster
	s := o.snapshot()
	s.at = from.at
	return s.encode(), true
}
