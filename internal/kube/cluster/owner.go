package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"
)

const judgeEvery = 5 * time.Second

// news is a message from the connecting goroutine.
type news struct {
	phase      Phase
	err        error
	connection *connection // nil if there is none
	shape      shape       // not unknownShape once the server has answered
	isSure     bool        // whether shape is certain
	plan       chan<- plan // gets the plan for the connection if shape is known; has room for it
}

// assignment is a source and the version from which to watch it. Version 0 means that it must be
// listed first.
type assignment struct {
	source   source
	position uint64
}

// plan lists what to watch on a server of that shape.
type plan struct {
	shape   shape
	isSure  bool
	sources []assignment
}

// owner is the goroutine that owns the store and decides what to publish and when.
type owner struct {
	w       *Watcher
	store   *store
	reports chan report
	news    chan news
	saves   chan []byte

	met       bool
	cluster   [sha256.Size]byte // valid if met is set
	shape     shape
	unsure    bool      // the server has not reported yet whether it has ServiceImports
	importsAt time.Time // since when the ServiceImports are not watched; zero if they are
	heard     news
	whole     bool      // the server's state has been complete once
	fromDisk  time.Time // when the state in the store was written to disk; zero if it is from the server
	refused   time.Time // when a saved state was written that load refused because of its age; zero if none
	failing   time.Time // since when something is not watched; zero if everything is
	saved     time.Time
	savedSize int // bytes of the last saved state
	unsaved   bool
	published struct {
		at      time.Time // zero before the first publication
		stale   bool
		allPods bool
		lacking bool // ServiceImports are unknown
		took    time.Duration
	}
	publishing *time.Timer // nil if nothing is scheduled
	judged     bool        // Config.Unready has been called
	lastDrop   string      // the last dropped object, and why
	saidDrop   time.Time   // last log line about dropped objects
}

func newOwner(w *Watcher) *owner {
	return &owner{
		w: w, store: newStore(w.config.Features), heard: news{phase: Connecting}, failing: time.Now(),
		reports: make(chan report), news: make(chan news), saves: make(chan []byte, 1),
	}
}

// run processes reports and news until ctx ends.
func (o *owner) run(ctx context.Context) error {
	defer close(o.saves)
	ticks := time.NewTicker(judgeEvery)
	defer ticks.Stop()
	for {
		var due <-chan time.Time
		if o.publishing != nil {
			due = o.publishing.C
		}
		select {
		case <-ctx.Done():
			o.save(true)
			return nil
		case r := <-o.reports:
			o.apply(r)
		case n := <-o.news:
			o.handleNews(n)
		case <-due:
			o.publishing = nil
			o.publish()
		case <-ticks.C:
			o.loadAgain()
			o.judge()
			o.save(false)
		}
	}
}

func (o *owner) handleNews(n news) {
	if n.err == nil && n.shape == unknownShape && o.heard.phase == Connecting {
		n.err = o.heard.err // a retry: only the error of the last attempt is known
	}
	o.heard = n
	if n.connection != nil {
		o.meet(n.connection)
	}
	if n.shape != unknownShape {
		o.unsure = !n.isSure && (o.unsure || o.shape == unknownShape)
		if n.isSure || n.shape != slicesShape || o.shape != importsShape { // else keep the last known shape
			o.shape = n.shape
		}
		n.plan <- o.plan()
	}
	o.judge()
}

// plan decides what to watch, and from which version.
func (o *owner) plan() plan {
	o.store.setImports(o.shape == importsShape || o.unsure) // if unsure, they count as unknown
	wanted := sources(o.w.config.Features, o.w.config.NodeName, o.shape)
	o.store.assign(wanted)
	p := plan{shape: o.shape, isSure: !o.unsure}
	for _, s := range wanted {
		p.sources = append(p.sources, assignment{source: s, position: o.store.progress[s.kind].position})
	}
	return p
}

// meet records the cluster of a new connection.
func (o *owner) meet(c *connection) {
	switch {
	case !o.met:
		o.met = true
		o.load(c.cluster)
	case o.cluster != c.cluster:
		// Another cluster, or the same one with another address or CA: the known state is served
		// until the lists of the new server have replaced it.
		o.w.log.Warn("the kubeconfig has another API server or another CA; reading everything again",
			"server", c.api.server.String())
		o.store.restart()
	}
	o.cluster = c.cluster
}

func (o *owner) apply(r report) {
	o.store.apply(r)
	switch r.step {
	case complete:
		o.logLost(r.source)
		o.logDropped(r.source)
		o.judge()
	case changed, deleted, reached:
		o.logLost(r.source)
		o.logDropped(r.source)
	case watching, broken:
		o.judge()
	case rewound:
		o.w.log.Warn("the API server's state is older than before; reading everything again",
			"kind", r.source.kind.String(), "version", r.version)
	}
	if o.whole && o.store.dirty || !o.whole && o.store.synced() {
		o.schedule()
	}
}

// logLost logs changes that a watch did not report.
func (o *owner) logLost(s source) {
	if p := o.store.progress[s.kind]; p != nil && p.lost > 0 {
		o.w.log.Warn("a watch lost changes", "kind", s.kind.String(), "objects", p.lost)
		p.lost = 0
	}
}

// logDropped logs dropped objects, at most once a minute. Anyone who may write objects may write
// many.
func (o *owner) logDropped(s source) {
	p := o.store.progress[s.kind]
	if p == nil || p.drops.count == 0 {
		return
	}
	o.lastDrop = fmt.Sprintf("%v %q: %v", s.kind, p.drops.last.Namespace+"/"+p.drops.last.Name, p.drops.why)
	if now := time.Now(); now.Sub(o.saidDrop) >= time.Minute {
		o.saidDrop = now
		o.w.log.Warn("dropped objects of the cluster; some of its names are not answered", "kind", s.kind.String(), "objects", p.drops.count,
			"last", o.lastDrop)
		p.drops = drops{}
	}
}

// report passes a report to the owner. It fails if ctx ends first.
func (o *owner) report(ctx context.Context, r report) error {
	select {
	case o.reports <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tell passes news to the owner, unless ctx ends first.
func (o *owner) tell(ctx context.Context, n news) {
	select {
	case o.news <- n:
	case <-ctx.Done():
	}
}
