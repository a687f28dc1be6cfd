package view

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

const (
	// recentFailures is the maximum age of a failure that is shown.
	recentFailures = 5 * time.Minute
	// maxRecent limits each list of names.
	maxRecent = 8
)

// RecentNames picks the names from the cache, so that nothing must be recorded while queries are
// answered. Like DumpCache, it leaves processor time to queries.
func (v *View) RecentNames(ctx context.Context) control.RecentNames {
	return recentNames(ctx, v.resolver.Cache())
}

func recentNames(ctx context.Context, c *cache.Cache) control.RecentNames {
	all := control.RecentNames{APIVersion: control.APIVersion, Kind: "RecentNames"}
	var failed, negative, answered latest
	seen, began := 0, time.Now()
	pace := func() bool {
		if seen++; seen%dumpStep == 0 {
			time.Sleep(time.Since(began))
			began = time.Now()
		}
		return ctx.Err() == nil
	}
	c.WalkFailures(recentFailures, func(r cache.Remembered) bool {
		failed.add(r)
		return pace()
	})
	c.Walk(func(r cache.Remembered) bool {
		switch {
		case r.Server.IsZero():
		case r.IsNegative:
			negative.add(r)
		default:
			answered.add(r)
		}
		return pace()
	})
	all.Failed, all.Negative, all.Answered = failed.names(), negative.names(), answered.names()
	return all
}

// latest are the most recent of the added responses.
type latest []cache.Remembered

func (l *latest) add(r cache.Remembered) {
	at, _ := slices.BinarySearchFunc(*l, r.Age, func(have cache.Remembered, age time.Duration) int { return cmp.Compare(have.Age, age) })
	if at < maxRecent {
		*l = slices.Insert(*l, at, r)
		*l = (*l)[:min(len(*l), maxRecent)]
	}
}

func (l latest) names() []control.RecentName {
	all := []control.RecentName{}
	for _, r := range l {
		name := control.RecentName{Name: r.QName, Type: dnswire.TypeText(r.Type), Result: result(r), Age: int64(max(0, r.Age) / time.Second)}
		if !r.Server.IsZero() {
			name.Server = r.Server.String()
		}
		all = append(all, name)
	}
	return all
}
