package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"
)

const judgeEvery = 5 * time.Second

// news is what the connecting goroutine has to say.
type news struct {
	phase      Phase
	err        error
	connection *connection // nil: there is none
	shape      shape       // not unknownShape: the server answers
	isSure     bool        // of the shape
	plan       chan<- plan // with a shape: gets the plan for the connection; has room for it
}

// assignment is a source, and the version from which it is to be watched; 0: it has to be listed first.
type assignment struct {
	source   source
	position uint64
}

// plan says what is watched of a server of that shape.
type plan struct {
	shape   shape
	isSure  bool
	sources []assignment
}

// owner is the goroutine that has the store, and decides what of it is published and when.
type owner struct {
	w       *Watcher
	store   *store
	reports chan report
	news    chan news
	saves   chan []byte

	met       bool
	cluster   [sha256.Size]byte // once met
	shape     shape
	unsure    bool        // the server has not said yet whether it has ServiceImports
	importsAt time.Time   // since when the ServiceImports are not watched; zero: they are
	resumes   atomic.Bool // there is a state to go on from
	heard     news
	whole     bool      // the state has been whole, from the server
	fromDisk  time.Time // when what is in the store was written; zero: it is from the server
	failing   time.Time // since when something is not watched; zero: all is
	saved     time.Time
	savedSize int // in octets, of the last one
	unsaved   bool
	published struct {
		at      time.Time // zero: never
		stale   bool
		allPods bool
		lacking bool // of ServiceImports
		took    time.Duration
	}
	publishing *time.Timer // nil: nothing is to be published
	judged     bool        // who asks for the reason has one
	lastDrop   string      // the last object that was dropped, and why
	saidDrop   time.Time   // when the log last said so
}

func newOwner(w *Watcher) *owner {
	return &owner{
		w: w, store: newStore(w.config.Features), heard: news{phase: Connecting}, failing: time.Now(),
		reports: make(chan report), news: make(chan news), saves: make(chan []byte, 1),
	}
}

// run owns the store until ctx ends.
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
			o.hear(n)
		case <-due:
			o.publishing = nil
			o.publish()
		case <-ticks.C:
			o.judge()
			o.save(false)
		}
	}
}

// hear takes news.
func (o *owner) hear(n news) {
	if n.err == nil && n.shape == unknownShape && o.heard.phase == Connecting {
		n.err = o.heard.err // another try: what ended the last one is all that is known
	}
	o.heard = n
	if n.connection != nil {
		o.meet(n.connection)
	}
	if n.shape != unknownShape {
		o.unsure = !n.isSure && (o.unsure || o.shape == unknownShape)
		if n.isSure || n.shape != slicesShape || o.shape != importsShape { // else the server has what it had
			o.shape = n.shape
		}
		n.plan <- o.plan()
	}
	o.judge()
}

// plan decides what is watched, and from where.
func (o *owner) plan() plan {
	o.store.setImports(o.shape == importsShape || o.unsure) // of which nothing is known if it is not sure
	wanted := sources(o.w.config.Features, o.w.config.NodeName, o.shape)
	o.store.assign(wanted)
	p := plan{shape: o.shape, isSure: !o.unsure}
	for _, s := range wanted {
		p.sources = append(p.sources, assignment{source: s, position: o.store.progress[s.kind].position})
	}
	return p
}

// meet takes note of the cluster that we connect to.
func (o *owner) meet(c *connection) {
	switch {
	case !o.met:
		o.met = true
		o.load(c.cluster)
	case o.cluster != c.cluster:
		// Another cluster, or the same by another name or with another CA: what is known is served until the lists of
		// the one that answers have replaced it.
		o.w.log.Warn("the kubeconfig leads to another API server, or has another CA: reading all anew",
			"server", c.api.server.String())
		o.store.restart()
	}
	o.cluster = c.cluster
}

// apply takes a report.
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
		o.w.log.Warn("the API server's state is older than what it has told before: reading all anew",
			"kind", r.source.kind.String(), "version", r.version)
	}
	if o.whole && o.store.dirty || !o.whole && o.store.synced() {
		o.schedule()
	}
}

// logLost says that a watch has not told everything.
func (o *owner) logLost(s source) {
	if p := o.store.progress[s.kind]; p != nil && p.lost > 0 {
		o.w.log.Warn("a watch had lost changes", "kind", s.kind.String(), "objects", p.lost)
		p.lost = 0
	}
}

// logDropped says which objects are not kept, once a minute at most: whoever may write objects may write many.
func (o *owner) logDropped(s source) {
	p := o.store.progress[s.kind]
	if p == nil || p.drops.count == 0 {
		return
	}
	o.lastDrop = fmt.Sprintf("%v %q: %v", s.kind, p.drops.last.Namespace+"/"+p.drops.last.Name, p.drops.why)
	if now := time.Now(); now.Sub(o.saidDrop) >= time.Minute {
		o.saidDrop = now
		o.w.log.Warn("objects of the cluster are dropped: some of its names are not answered", "kind", s.kind.String(), "objects", p.drops.count,
			"last", o.lastDrop)
		p.drops = drops{}
	}
}

// report hands a report to the owner; the error is that ctx has ended.
func (o *owner) report(ctx context.Context, r report) error {
	select {
	case o.reports <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tell hands news to the owner, unless ctx ends.
func (o *owner) tell(ctx context.Context, n news) {
	select {
	case o.news <- n:
	case <-ctx.Done():
	}
}
