package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

const (
	// sampleEvery is how often the counters are read, which nobody who is answered notices.
	sampleEvery = 10 * time.Second
	// aMinute is what the status tells of; what was read longer ago is needed once more, to be taken off.
	aMinute = time.Minute
)

// minute has what the listeners have counted at some times of the last minute.
type minute struct {
	mu      sync.Mutex // guards samples
	samples []sample   // the oldest first
}

// sample is what was counted until a time.
type sample struct {
	at                 time.Time
	queries, responses uint64
	nxdomain, servfail uint64
	upTo               map[time.Duration]uint64 // responses that took no longer than each bound
}

func newSample(at time.Time, all []dnsserver.Traffic) sample {
	s := sample{at: at, upTo: map[time.Duration]uint64{}}
	for _, t := range all {
		for _, n := range t.Types {
			s.queries += n
		}
		for i, n := range t.Rcodes {
			switch dnsserver.RcodeNames[i] {
			case "NXDOMAIN":
				s.nxdomain += n
			case "SERVFAIL":
				s.servfail += n
			}
		}
		count, _, upTo := t.Durations.Buckets()
		s.responses += count
		for bound, n := range upTo {
			s.upTo[time.Duration(bound*float64(time.Second))] += n
		}
	}
	return s
}

// add adds a sample, and forgets what is not of the minute before it.
func (m *minute) add(s sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.samples) > 1 && s.at.Sub(m.samples[1].at) >= aMinute {
		m.samples = m.samples[1:]
	}
	m.samples = append(slices.Clip(m.samples), s)
}

// since is what has come since a minute, or since the start where that is shorter; nil: it is too short to tell.
func (m *minute) since(now sample) *control.LastMinute {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.samples) == 0 || now.at.Sub(m.samples[0].at) < sampleEvery {
		return nil
	}
	first := m.samples[0]
	for _, s := range m.samples {
		if now.at.Sub(s.at) >= aMinute {
			first = s
		}
	}
	l := &control.LastMinute{
		Over: now.at.Sub(first.at), Queries: now.queries - first.queries, Responses: now.responses - first.responses,
		NXDomain: now.nxdomain - first.nxdomain, ServFail: now.servfail - first.servfail,
	}
	l.P50, l.P99 = first.quantile(now, l.Responses, 50), first.quantile(now, l.Responses, 99)
	return l
}

// quantile is the bound that so many of a hundred responses did not take longer than; 0: there were none, or they took longer than all bounds.
func (s sample) quantile(now sample, responses, percent uint64) (bound time.Duration) {
	for at, n := range now.upTo {
		if responses > 0 && 100*(n-s.upTo[at]) >= percent*responses && (bound == 0 || at < bound) {
			bound = at
		}
	}
	return bound
}

// watchMinute reads the counters now and then.
func (d *Daemon) watchMinute(ctx context.Context) error {
	for {
		d.minute.add(newSample(time.Now(), d.server.Traffic()))
		if !supervise.Sleep(ctx, sampleEvery) {
			return nil
		}
	}
}

func (d *Daemon) lastMinute(now time.Time) *control.LastMinute {
	return d.minute.since(newSample(now, d.server.Traffic()))
}
