package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/node-dns/node-dns/internal/clusterdns"
	"github.com/node-dns/node-dns/internal/kubewire"
	"github.com/node-dns/node-dns/internal/supervise"
)

// Settings are what a cluster configures of its own DNS.
type Settings struct {
	// Objects are those that exist, as they were when the API last told of them.
	Objects []clusterdns.Object
	// Failed says, of each object that the API does not tell of, why. It may still be among the Objects, as it was before.
	Failed []error
}

// How soon an object is asked for again, on average: one that may not be read, and one of an API that the server does not have.
const (
	deniedAgain  = 5 * time.Minute
	missingAgain = time.Hour
)

// setting is what is known of one object. One of another cluster holds until the API has said what this one has.
type setting struct {
	object   *clusterdns.Object // nil: there is none
	listed   *clusterdns.Object // by the list that is being read
	position uint64             // of the cluster: see reflector
	err      error              // why it is not watched; nil: it is
}

// settings gathers what reflectors tell of the objects that configure a cluster's DNS. They are apart from the store: a name's answer does not
// wait for them, nor they for it.
type settings struct {
	mu      sync.Mutex
	cluster [sha256.Size]byte
	known   map[source]*setting
	last    Settings // published
	publish func(Settings)
}

func newSettings(known []clusterdns.Object, publish func(Settings)) *settings {
	s := &settings{known: map[source]*setting{}, publish: publish}
	for _, source := range settingSources() {
		s.known[source] = new(setting)
		for _, o := range known {
			if o.Kind == source.kind.String() && o.Namespace == source.namespace && o.Name == source.name {
				s.known[source].object = &o
			}
		}
	}
	s.last = s.gather()
	return s
}

// position is where the watch of a source goes on, over a connection to this cluster; 0: it has to be listed.
func (s *settings) position(of source, cluster [sha256.Size]byte) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster != cluster {
		s.cluster = cluster
		for _, one := range s.known {
			one.position = 0
		}
	}
	return s.known[of].position
}

// take takes what a reflector tells.
func (s *settings) take(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.known[r.source]
	switch r.step {
	case listing, comparing:
		one.listed = nil
	case listed:
		one.listed = objectOf(r.source, r.object)
	case complete:
		one.object, one.position, one.err = one.listed, r.version, nil
	case watching:
		one.err = nil
	case changed:
		one.object, one.position = objectOf(r.source, r.object), max(one.position, r.object.Version)
	case deleted:
		one.object, one.position = nil, max(one.position, r.object.Version)
	case reached:
		one.position = max(one.position, r.version)
	case rewound:
		one.position = 0
	case broken:
		if _, isStatus := status(r.err); !isStatus {
			return // the server cannot be reached, which State says
		}
		one.err = r.err
	}
	s.tell()
}

// missing is that the server has no such API.
func (s *settings) missing(of source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.known[of] = setting{}
	s.tell()
}

// tell publishes what is known, if that is news. s.mu is held, so that what is older does not overtake.
func (s *settings) tell() {
	if now := s.gather(); !reflect.DeepEqual(now, s.last) {
		s.last = now
		s.publish(now)
	}
}

func (s *settings) gather() (all Settings) {
	for _, source := range settingSources() {
		one := s.known[source]
		if one.object != nil {
			all.Objects = append(all.Objects, *one.object)
		}
		if one.err != nil {
			all.Failed = append(all.Failed, one.err)
		}
	}
	return all
}

// objectOf is an object as clusterdns reads it; nil: it is too big to be one that configures DNS.
func objectOf(s source, o kubewire.Object) *clusterdns.Object {
	to := &clusterdns.Object{Kind: s.kind.String(), Namespace: s.namespace, Name: s.name}
	switch value := o.Value.(type) {
	case kubewire.ConfigMap:
		to.Data = value
	case kubewire.DNS:
		spec, err := json.Marshal(value)
		if err != nil {
			return nil // the decoder has read it as JSON: it is
		}
		to.Spec = spec
	default:
		return nil
	}
	return to
}

// followSettings watches every object until ctx ends, and then returns nil. What fails for one of them ends no session.
func (w *Watcher) followSettings(ctx context.Context, c *connection) error {
	var group errgroup.Group
	for _, s := range settingSources() {
		group.Go(w.config.guard(func() error { return w.followSetting(ctx, c, s) }))
	}
	return group.Wait()
}

func (w *Watcher) followSetting(ctx context.Context, c *connection, s source) error {
	for ctx.Err() == nil {
		denied := false
		to := func(r report) error {
			w.settings.take(r)
			if denied = r.step == broken && hasCode(r.err, http.StatusForbidden); denied {
				return r.err
			}
			return ctx.Err()
		}
		err := newReflector(c.api, s, w.settings.position(s, c.cluster), to, w.config).run(ctx)
		wait := maxBackoff
		switch {
		case isMissing(err):
			w.settings.missing(s)
			wait = missingAgain
		case denied:
			wait = deniedAgain
		}
		supervise.Sleep(ctx, time.Duration((0.5+w.config.Chance())*float64(wait)))
	}
	return nil
}
