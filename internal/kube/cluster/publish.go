package cluster

import "time"

const (
	// settle is how long the first change after a quiet time waits for related changes, such as a
	// Service and its slices.
	settle = 5 * time.Millisecond
	// publishEvery is the shortest interval between publications under constant change. It grows if
	// publishing is slow.
	publishEvery = 100 * time.Millisecond
	publishShare = 20 // publishing takes at most a twentieth of the time
)

// schedule starts the timer for the next publication, unless it runs.
func (o *owner) schedule() {
	if o.publishing != nil {
		return
	}
	every := max(publishEvery, publishShare*o.published.took)
	o.publishing = time.NewTimer(max(settle, every-time.Since(o.published.at)))
}

// publish publishes the state if it is complete.
func (o *owner) publish() {
	if !o.whole && !o.store.synced() {
		return
	}
	if !o.whole {
		o.whole, o.fromDisk = true, time.Time{}
	}
	o.give()
	o.judge()
}

// give publishes the current state.
func (o *owner) give() {
	began := time.Now()
	snapshot := o.store.builder.Snapshot(began)
	o.published.stale = !o.fromDisk.IsZero() || o.isStale(began)
	if o.published.stale {
		snapshot = snapshot.Stale()
	}
	o.published.allPods = o.store.hasAllPods()
	if !o.published.allPods {
		snapshot = snapshot.SomePods()
	}
	if o.published.lacking = o.lacksImports(began); o.published.lacking {
		snapshot = snapshot.Unimported()
	}
	o.unsaved = o.unsaved || o.store.dirty
	o.store.dirty = false
	o.w.latest.Store(snapshot)
	o.w.config.Publish(snapshot)
	o.published.at, o.published.took = time.Now(), time.Since(began)
	o.tellProgrammed(snapshot, o.published.at)
}
