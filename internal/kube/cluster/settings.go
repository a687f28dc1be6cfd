package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/node-dns/node-dns/internal/kube/clusterdns"
	"github.com/node-dns/node-dns/internal/kube/kubewire"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// Settings are a cluster's own DNS configuration.
type Settings struct {
	// Objects are the existing objects, as last reported by the API.
	Objects []clusterdns.Object
	// Failed has the reason for each object that cannot be read or watched. Its last known version
	// may still be in Objects.
	Failed []error
	// Cluster identifies the cluster of the Objects. It is empty if unknown.
	Cluster string
}

// IsSetting reports whether o is one of the objects that Settings contain.
func IsSetting(o clusterdns.Object) bool {
	return slices.ContainsFunc(settingSources(), func(s source) bool { return s.isOf(o) })
}

func (s source) isOf(o clusterdns.Object) bool {
	return o.Kind == s.kind.String() && o.Namespace == s.namespace && o.Name == s.name
}

// fewFailures is the number of failures in a row, without an HTTP status, at which they are
// reported. Fewer are ignored: a watch that ended early or a lost connection.
const fewFailures = 3

// Average times until an object is requested again: after 403, and if the server does not have its
// API.
const (
	deniedAgain  = 5 * time.Minute
	missingAgain = time.Hour
)

type setting struct {
	object    *clusterdns.Object // nil if it does not exist
	listed    *clusterdns.Object // from the list being read
	position  uint64             // resourceVersion up to which the object is known: see reflector
	err       error              // why it is not watched; nil if it is
	failures  int                // in a row, without an HTTP status
	isForeign bool               // object is from another cluster, and holds until this cluster's API has answered
}

// settings collects the reports of the reflectors that watch settingSources. It is separate from
// the store, so that a failure here does not delay the cluster's names.
type settings struct {
	mu      sync.Mutex
	cluster string // of the last connection; empty before the first one
	from    string // of the objects
	known   map[source]*setting
	last    Settings // published
	publish func(Settings)
}

func newSettings(known Settings, publish func(Settings)) *settings {
	s := &settings{known: map[source]*setting{}, publish: publish, from: known.Cluster}
	for _, source := range settingSources() {
		s.known[source] = &setting{isForeign: true}
		for _, o := range known.Objects {
			if source.isOf(o) {
				s.known[source].object = &o
			}
		}
	}
	s.last = s.gather()
	return s
}

// position returns the version at which the watch of a source resumes on a connection to this
// cluster. 0 means that the source must be listed.
func (s *settings) position(of source, cluster [sha256.Size]byte) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := hex.EncodeToString(cluster[:]); s.cluster != name {
		s.cluster = name
		for _, one := range s.known {
			one.position, one.isForeign = 0, s.from != name
		}
	}
	return s.known[of].position
}

// take applies a report of a reflector.
func (s *settings) take(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.known[r.source]
	switch r.step {
	case listing, comparing:
		one.listed = nil
	case listed:
		if one.listed = objectOf(r.source, r.object); one.listed == nil {
			one.listed = one.object
		}
	case complete:
		one.object, one.position, one.err, one.failures, one.isForeign = one.listed, r.version, nil, 0, false
	case watching:
		one.err, one.failures = nil, 0
	case changed:
		one.position = max(one.position, r.object.Version)
		if object := objectOf(r.source, r.object); object != nil {
			one.object = object
		}
	case deleted:
		one.object, one.position = nil, max(one.position, r.object.Version)
	case reached:
		one.position = max(one.position, r.version)
	case rewound:
		one.position = 0
	case broken:
		if _, isStatus := status(r.err); !isStatus {
			if one.failures++; one.failures < fewFailures {
				return
			}
		} else if one.isForeign {
			one.object = nil // this cluster's object is not known
		}
		if one.err = r.err; !hasCode(r.err, http.StatusForbidden) { // a 403 error already names the object
			one.err = fmt.Errorf("%s %s: %w", r.source.kind, r.source.name, r.err)
		}
	}
	s.tell()
}

// missing drops an object whose API the server does not have.
func (s *settings) missing(of source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.known[of] = setting{position: s.known[of].position}
	s.tell()
}

// tell publishes the Settings if they have changed. The caller holds s.mu, which keeps the calls in
// order.
func (s *settings) tell() {
	if now := s.gather(); !reflect.DeepEqual(now, s.last) {
		s.last = now
		s.publish(now)
	}
}

func (s *settings) gather() (all Settings) {
	isMixed := false
	for _, source := range settingSources() {
		one := s.known[source]
		if one.object != nil {
			all.Objects = append(all.Objects, *one.object)
		}
		if one.err != nil {
			all.Failed = append(all.Failed, one.err)
		}
		isMixed = isMixed || one.isForeign && one.object != nil
	}
	if s.cluster != "" && !isMixed {
		s.from = s.cluster
	}
	all.Cluster = s.from
	return all
}

// objectOf converts an object for clusterdns. It returns nil for an object over the size limit; the
// earlier version then stays.
func objectOf(s source, o kubewire.Object) *clusterdns.Object {
	to := &clusterdns.Object{Kind: s.kind.String(), Namespace: s.namespace, Name: s.name}
	switch value := o.Value.(type) {
	case kubewire.ConfigMap:
		to.Data = value
	case kubewire.DNS:
		spec, err := json.Marshal(value)
		if err != nil {
			return nil // cannot happen: the decoder read it as JSON
		}
		to.Spec = spec
	default:
		return nil
	}
	return to
}

// followSettings watches all objects until ctx ends and then returns nil. A failure does not end
// the session.
func (w *Watcher) followSettings(ctx context.Context, c *connection) error {
	var group errgroup.Group
	for _, s := range settingSources() {
		group.Go(w.config.guard(func() error { return w.followSetting(ctx, c, s) }))
	}
	return group.Wait()
}

func (w *Watcher) followSetting(ctx context.Context, c *connection, s source) error {
	for ctx.Err() == nil {
		if s.kind == kubewire.DNSes {
			has, wait := w.hasOperator(ctx, c)
			if !has {
				w.rest(ctx, wait)
				continue
			}
		}
		denied := false
		to := func(r report) error {
			if _, isStatus := status(r.err); r.step == broken && !isStatus && w.State().Phase != Synced {
				return ctx.Err() // the server is unreachable, which State reports
			}
			w.settings.take(r)
			if denied = r.step == broken && hasCode(r.err, http.StatusForbidden); denied {
				return r.err
			}
			return ctx.Err()
		}
		err := newReflector(c.api, s, w.settings.position(s, c.cluster), to, w.config).run(ctx)
		wait := maxBackoff
		switch {
		case err != nil:
			w.settings.take(report{source: s, step: broken, err: err}) // 404
		case denied:
			wait = deniedAgain
		}
		w.rest(ctx, wait)
	}
	return nil
}

// hasOperator reports whether the server has the API of OpenShift's operator, and if not, when to
// check again. Discovery decides, because a server without that API answers 403, not 404, to a
// client without the right. The object is dropped only if a second API group exists: a proxy
// without a server answers 404 to both.
func (w *Watcher) hasOperator(ctx context.Context, c *connection) (has bool, again time.Duration) {
	has, err := c.api.hasGroup(ctx, operatorPath, "dnses")
	if has {
		return true, 0
	}
	if _, isStatus := status(err); err != nil && !isStatus {
		return false, maxBackoff
	}
	if hasOther, otherErr := c.api.hasGroup(ctx, "/apis/discovery.k8s.io/v1", ""); err != nil || otherErr != nil || !hasOther {
		return false, deniedAgain
	}
	w.settings.missing(source{kind: kubewire.DNSes, name: "default"})
	return false, missingAgain
}

// rest waits between half and one and a half times wait, to spread the requests of many nodes.
func (w *Watcher) rest(ctx context.Context, wait time.Duration) {
	supervise.Sleep(ctx, time.Duration((0.5+w.config.Chance())*float64(wait)))
}
