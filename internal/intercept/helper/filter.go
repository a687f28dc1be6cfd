package helper

import (
	"fmt"
	"time"

	"github.com/google/nftables/expr"
)

// A packet filter of this host, such as firewalld's, may drop queries that are for this host now.
// It let them pass while they were for the cluster's DNS pods. Or it may drop the responses, which
// connection tracking does not know. So the rules count the queries that arrive, and those that
// have passed all filters, and the responses of node-dns likewise.

const (
	// filterWindow is the time over which packets are compared.
	filterWindow = time.Second
	// fewestDropped is the number of dropped packets that ends interception, if they are also a
	// tenth of all.
	fewestDropped = 10
	// filteredFor is the time until the next try. Each costs fewestDropped packets.
	filteredFor = 10 * time.Minute
)

// Reasons why an address is not intercepted.
const (
	filtered          = "a packet filter of this host drops queries of pods"
	filteredResponses = "a packet filter of this host drops responses to pods"
)

// passage counts queries to the intercepted addresses, or responses from them. Packets pass while
// the counters are read.
type passage struct {
	before   uint64 // accepted, read before arrived
	arrived  uint64
	accepted uint64 // read after arrived
}

// filterWatch decides from the counters whether a packet filter drops queries. The zero value is
// ready to use.
type filterWatch struct {
	base  passage   // at the start of the window
	since time.Time // start of the window
	until time.Time // no interception before this time
}

// see takes the counters at a time, and reports whether a filter drops the queries. New rules start
// at zero.
func (f *filterWatch) see(now time.Time, p passage) bool {
	if p.arrived < f.base.arrived || p.accepted < f.base.before || f.since.IsZero() {
		f.base, f.since = passage{}, now
	}
	arrived, accepted := p.arrived-f.base.arrived, p.accepted-f.base.before
	if arrived >= accepted+fewestDropped && 10*(arrived-accepted) >= arrived {
		*f = filterWatch{until: now.Add(filteredFor)}
		return true
	}
	if now.Sub(f.since) >= filterWindow {
		f.base, f.since = p, now
	}
	return false
}

// blocks reports whether a filter was found to drop queries, a short time ago.
func (f *filterWatch) blocks(now time.Time) bool { return now.Before(f.until) }

// passages reads the counters of the rules in the kernel, of queries and of responses.
func (t *table) passages() (queries, responses passage, err error) {
	queries, err = t.passage(rawIn, accepted)
	if err == nil {
		responses, err = t.passage(rawOut, sent)
	}
	return queries, responses, err
}

// passage reads the counters of a chain before all filters, and of one after them.
func (t *table) passage(first, last chain) (passage, error) {
	var p passage
	for _, count := range []struct {
		chain chain
		into  *uint64
	}{{last, &p.before}, {first, &p.arrived}, {last, &p.accepted}} {
		have := t.chains[count.chain.name]
		if have == nil {
			continue // nothing was intercepted yet
		}
		rules, err := t.conn.GetRules(t.table, have)
		if err != nil {
			return passage{}, fmt.Errorf("reading the rules of table inet %s: %w", tableName, err)
		}
		for _, r := range rules {
			for _, e := range r.Exprs {
				if c, ok := e.(*expr.Counter); ok {
					*count.into += c.Packets
				}
			}
		}
	}
	return p, nil
}
