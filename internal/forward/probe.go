package forward

import (
	"context"
	"time"
)

// probe asks a server that is down, or late, what another one is asked for the client, to
// see whether it is back. It costs the client no time, and the network one query
// in each backoff. The response is not used.
func (f *Forward) probe(s *server, q question) {
	if !s.startProbe() {
		return
	}
	f.work.Go(func() {
		defer s.endProbe()
		defer f.recovered(func(error) {})
		ctx, cancel := context.WithTimeout(context.Background(), f.checkTime(s))
		defer cancel()
		begun, wait := time.Now(), f.waitFor(s, false, 0)
		m, err := (&try{f: f, q: q, attempt: attempt{to: s}}).run(ctx)
		if err != nil && ctx.Err() != nil {
			f.wasSilent(s, f.checkTime(s))
		}
		if err != nil || judge(m, false, true) != final || time.Since(begun) > wait {
			s.late()
		}
	})
}

// check asks a server that was silent for the root's nameservers, which every nameserver knows or refuses to say, in half
// the time of a try. So one whose clients ask for names that take it longer than a try is not taken for dead: it went down
// and up in the log, and out of turn, all the time. One that is dead is found out half a try later for it.
// Where it is asked over its upgrade it is that connection which is checked: without it the server may answer yet.
func (f *Forward) check(s *server) {
	if u, conn := s.upgraded(); conn != nil {
		u.check(conn, f.checkTime(s))
		return
	}
	if !s.startCheck() {
		return
	}
	ended, begun := make(chan struct{}), time.Now()
	f.work.Go(func() {
		if hasPassed(f.checkWait(s), ended) {
			s.fallSilent(begun)
		}
	})
	f.work.Go(func() {
		defer close(ended)
		defer f.recovered(func(error) { s.endCheck(false) })
		ctx, cancel := context.WithTimeout(context.Background(), f.checkTime(s))
		defer cancel()
		_, err := (&try{f: f, q: rootQuestion(), attempt: attempt{to: s}}).run(ctx)
		silent := err != nil && ctx.Err() != nil
		s.endCheck(silent)
		if silent {
			s.timedOut(f.checkTime(s))
		}
	})
}

// wasSilent accounts for a server that said nothing for so long, if it is not the connection of its upgrade that is silent, which
// is found out.
func (f *Forward) wasSilent(s *server, after time.Duration) {
	if u, conn := s.upgraded(); conn != nil {
		u.check(conn, f.checkTime(s))
		return
	}
	s.timedOut(after)
}

// checkWait is after how long a check tells that nobody is there for now.
func (f *Forward) checkWait(s *server) time.Duration {
	return max(2*f.hedge, min(s.usual(), f.tryTimeout))
}

// checkTime is half the time of a try, or what a server that is far away needs.
func (f *Forward) checkTime(s *server) time.Duration { return max(f.tryTimeout/2, 2*s.wait()) }
