// Package top shows the activity of a running node-dns live in a terminal.
//
// A Model takes events from the control socket's monitor and keys from the user, and renders
// frames. It is pure: its only clock is the time of the events, and it does not access the
// terminal. Run connects it with both.
package top

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/sys/stats"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

const (
	// maxKeys limits the number of names, clients and so on that are kept.
	maxKeys = 500
	// keepPerSecond is the share of a count that remains after a second, so that a rate covers
	// about the last 10 s.
	keepPerSecond = 0.9
	// statuses is the number of statuses kept for computing rates, one per second.
	statuses = 6
	// remembered is how long a slow or failing name is shown after its last occurrence.
	remembered = 5 * time.Minute
)

// Model is the state of the display. New creates it; the zero Model is not ready for use.
type Model struct {
	names, clients, answers *stats.Sketch[tally]
	slow, failing           *stats.Sketch[trouble]

	now         time.Time // time of the last event
	ticked      time.Time // last time when weights faded
	status      control.Status
	earlier     []control.Status // the last few, oldest first
	hasStatus   bool
	ticks       int // seconds since counting began
	lost        uint64
	change      control.MonitorEvent // last change
	unconnected string               // reason why there are no events; empty if there are

	screen
}

// tally counts properties of the queries for a name, a client or an answerer. The counts fade like
// the weight.
type tally struct {
	hits, absent, failed float64
	took                 float64 // seconds, summed over all timed queries
	timed                float64
	pod                  string
}

// trouble is the last slow or failed query for a name, and the worst time.
type trouble struct {
	qtype, rcode, by, client, why string
	worst, took                   time.Duration
	at                            time.Time
}

// New returns a Model that shows the names view.
func New() *Model {
	m := &Model{}
	for i, v := range views {
		m.order[i].by = v.sortBy
	}
	m.clear()
	return m
}

// clear resets the counts of queries.
func (m *Model) clear() {
	m.names, m.clients, m.answers = stats.NewSketch[tally](maxKeys), stats.NewSketch[tally](maxKeys), stats.NewSketch[tally](maxKeys)
	m.slow, m.failing = stats.NewSketch[trouble](maxKeys), stats.NewSketch[trouble](maxKeys)
	m.lost, m.ticks = 0, 0
}

// Take handles an event. It escapes the strings in the event, which are untrusted.
func (m *Model) Take(e control.MonitorEvent) {
	m.unconnected = ""
	if m.isPaused {
		return
	}
	e = termtext.All(e)
	m.now = e.Time
	switch e.Kind {
	case control.KindStatus:
		if e.Status == nil {
			return
		}
		m.status, m.hasStatus = *e.Status, true
		m.earlier = append(m.earlier[max(0, len(m.earlier)-statuses+1):], m.status)
		m.tick(e.Time)
	case control.KindLost:
		m.lost += e.Queries
	case control.KindChange:
		m.change = e
	case control.KindQuery:
		m.query(e)
	}
}

// Unconnected shows why there are no events. The counts are kept.
func (m *Model) Unconnected(why error) { m.unconnected = termtext.Lines(why.Error(), " ") }

// tick makes the counts fade. If the daemon's clock is set back, one call does nothing.
func (m *Model) tick(now time.Time) {
	isFirst, seconds := m.ticked.IsZero(), now.Sub(m.ticked).Seconds()
	if m.ticked = now; isFirst || seconds <= 0 {
		return
	}
	keep := 1.0
	for range int(min(seconds+0.5, 60)) {
		keep *= keepPerSecond
		m.ticks++
	}
	for _, s := range []*stats.Sketch[tally]{m.names, m.clients, m.answers} {
		s.Fade(keep, func(t *tally) {
			for _, count := range []*float64{&t.hits, &t.absent, &t.failed, &t.took, &t.timed} {
				*count *= keep
			}
		})
	}
	for _, s := range []*stats.Sketch[trouble]{m.slow, m.failing} {
		s.Drop(func(t trouble) bool { return now.Sub(t.at) > remembered })
	}
}

// query counts a query that matches the filter.
func (m *Model) query(e control.MonitorEvent) {
	if !m.matches(e) {
		return
	}
	weight := float64(max(e.Queries, 1))
	for _, count := range []struct {
		of  *stats.Sketch[tally]
		key string
	}{{m.names, orDash(e.Name)}, {m.clients, e.Client}, {m.answers, e.By}} {
		if count.key != "" {
			count.of.Add(count.key, weight).count(e, weight)
		}
	}
	took := tookOf(e)
	if e.Name == "" {
		return
	}
	if took >= dnsserver.SlowAfter {
		m.slow.Add(e.Name, weight).note(e, took)
	}
	if isFailed(e) {
		m.failing.Add(e.Name, weight).note(e, took)
	}
}

func (t *tally) count(e control.MonitorEvent, weight float64) {
	if e.By == "hit" || e.By == "stale" {
		t.hits += weight
	}
	switch {
	case isFailed(e):
		t.failed += weight
	case e.Rcode == "NXDOMAIN":
		t.absent += weight
	}
	if e.Took != nil {
		t.took += weight * tookOf(e).Seconds()
		t.timed += weight
	}
	t.pod = e.Pod
}

func (t *trouble) note(e control.MonitorEvent, took time.Duration) {
	*t = trouble{
		qtype: e.Type, rcode: orDash(e.Rcode), by: cmp.Or(e.Server, e.By), client: cmp.Or(e.Pod, e.Client), why: e.Why,
		worst: max(t.worst, took), took: took, at: e.Time,
	}
}

// isFailed reports whether the client got no usable answer. NXDOMAIN is an answer.
func isFailed(e control.MonitorEvent) bool { return e.Rcode != "NOERROR" && e.Rcode != "NXDOMAIN" }

func tookOf(e control.MonitorEvent) time.Duration {
	if e.Took == nil {
		return 0
	}
	return time.Duration(*e.Took)
}

// matches reports whether a displayed field of a query contains the filter.
func (m *Model) matches(e control.MonitorEvent) bool {
	if m.filter == "" {
		return true
	}
	wanted := strings.ToLower(m.filter)
	return slices.ContainsFunc([]string{e.Name, e.Client, e.Pod, e.Type, e.Rcode, e.By, e.Server}, func(text string) bool {
		return strings.Contains(strings.ToLower(text), wanted)
	})
}

// before returns the status of some seconds ago, and how many seconds. They are negative if the
// clock was set back.
func (m *Model) before() (s control.Status, seconds float64) {
	if len(m.earlier) == 0 {
		return m.status, 0
	}
	return m.earlier[0], m.status.Now.Sub(m.earlier[0].Now).Seconds()
}

// perSecond returns the recent rate of a counter in the status.
func (m *Model) perSecond(of func(control.Status) uint64) float64 {
	earlier, seconds := m.before()
	now, before := of(m.status), of(earlier)
	if seconds <= 0 || now < before { // node-dns restarted
		return 0
	}
	return float64(now-before) / seconds
}

// rate converts a faded weight to queries per second. It divides by the weight that one query per
// second would have.
func (m *Model) rate(weight float64) float64 {
	faded := keepPerSecond * (1 - math.Pow(keepPerSecond, float64(m.ticks))) / (1 - keepPerSecond)
	since := m.now.Sub(m.ticked).Seconds()
	if m.ticked.IsZero() || since < 0 {
		since = 0
	}
	return weight / max(1, faded+since)
}

func orDash(text string) string { return cmp.Or(text, "-") }
