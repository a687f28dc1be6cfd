package forward

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// asker asks the servers of a flight's route: it has the clock and the attempts that a round has not.
type asker struct {
	f      *Forward
	fl     *flight
	round  *round
	order  []*server
	timer  *time.Timer // of the current attempt, or of a refusal
	silent *time.Timer // of all servers

	isVigil   bool // it is waited for longer than other questions, as all servers are down
	isHurried bool // the time of the current attempt does not count
}

// ask asks the servers of a flight's route until one gives a final response or ctx ends.
func (f *Forward) ask(ctx context.Context, fl *flight) (*dns.Msg, *server, error) {
	q, dark := fl.key.question, fl.route.dark.now.Load().known
	k, end := f.newAsker(fl)
	defer end()
	for {
		if a, ok := k.round.next(); ok {
			k.start(ctx, a)
			if k.round.all {
				continue
			}
		} else if k.round.over() && !k.mayBeRefuted() {
			return k.round.result(q)
		}
		select {
		case o := <-fl.outcomes:
			if k.take(o) {
				keepAsked(o.msg, q)
				return o.msg, o.to, nil
			}
		case <-k.timer.C:
			k.timeIsUp()
		case <-k.silent.C:
			if !slices.ContainsFunc(k.order, func(s *server) bool { return s.wasHeard(fl.begun) }) {
				return k.round.result(q)
			}
		case <-dark:
			dark = nil
			k.release()
		case <-ctx.Done():
			if fl.evicted.Load() {
				return nil, nil, tooMany(q, int(f.flights.n.Load()))
			}
			return k.round.result(q)
		}
	}
}

// newAsker begins with the servers whose turn it is, and has those behind them probed. end is called at the end.
func (f *Forward) newAsker(fl *flight) (k *asker, end func()) {
	order, behind := inTurn(fl.route.servers)
	for _, s := range behind {
		f.probe(s, fl.key.question)
	}
	order[0].isProbe()
	k = &asker{f: f, fl: fl, round: newRound(order), order: order, timer: time.NewTimer(0)}
	k.round.all = f.all.Load()
	silence := k.silence()
	k.silent = time.NewTimer(silence - time.Since(fl.begun))
	if fl.asking != nil {
		k.round.resume(fl.asking.server)
		fl.messages.Add(1)
		k.timer.Reset(f.waitFor(k.round.current.to, k.round.again(), 0) - time.Since(fl.begun))
	}
	return k, func() {
		k.timer.Stop()
		k.silent.Stop()
		if k.isVigil {
			order[0].endVigil()
		}
	}
}

// silence is how long the question lasts when no server says anything.
func (k *asker) silence() time.Duration {
	silence := k.f.silence
	if !k.order[0].isDown() {
		return silence
	}
	var isLong bool
	if isLong, k.isVigil = k.order[0].beginVigil(silence); !isLong {
		silence /= 3
	}
	if !k.isVigil {
		k.round.limit = max(2, len(k.round.queue)) // all of them are down: once each will do
	}
	return silence
}

// waitFor is how long an attempt is waited for before the next. On vigil a server is asked again halfway, so that one that is
// back meanwhile is found.
func (k *asker) waitFor(a attempt) time.Duration {
	if again := k.round.again(); !k.isVigil || !again || a.again {
		return k.f.waitFor(a.to, again, a.n)
	}
	return k.f.silence / 2
}

// mayBeRefuted reports whether a refusal is to wait: who is late by no more than others would be asked for may have the answer
// that it is not.
func (k *asker) mayBeRefuted() bool {
	patience := k.f.tryTimeout - time.Since(k.fl.begun)
	if len(k.round.open) == 0 || patience <= 0 {
		return false
	}
	k.timer.Reset(patience)
	return true
}

// take takes an outcome; true: it is the answer.
func (k *asker) take(o outcome) bool {
	switch {
	case o.isUnreadable && k.round.besides(o):
	case o.isSpoilt:
		if o.n == k.round.current.n && k.round.fresh && !k.round.again() {
			k.round.goOn()
		}
	case o.isRedo:
		k.round.redo(o)
	case o.err == nil && judge(o.msg, false, true) == final:
		for _, s := range k.round.slower(o) {
			s.late()
		}
		return true
	default:
		k.round.ended(o)
	}
	return false
}

// timeIsUp has the next be asked when the current attempt has had its time.
func (k *asker) timeIsUp() {
	k.round.late = k.round.late || k.round.all
	if !k.round.fresh {
		return // it has ended
	}
	s := k.round.current.to
	if !k.isHurried && !k.f.mayHedge(s, k.fl.begun) {
		k.isHurried = true
		k.timer.Reset(k.f.tryTimeout)
		return
	}
	k.f.overdue(s, k.fl.begun, k.order)
	k.round.timedOut()
}

// release has those who wait in a lane go where there may be something for them, as nobody is there. Where it is the network that
// says so it ends the question at once, for them too.
func (k *asker) release() {
	if slices.ContainsFunc(k.order, (*server).isQuiet) {
		k.fl.release()
	}
}

// start begins an attempt.
func (k *asker) start(ctx context.Context, a attempt) {
	f, fl := k.f, k.fl
	k.isHurried = false
	k.timer.Reset(k.waitFor(a))
	f.work.Go(func() {
		t := try{f: f, q: fl.key.question, attempt: a, messages: &fl.messages, spent: &fl.spent}
		var spoilt, unread sync.Once
		t.spoilt = func(unreadable bool) {
			once := &spoilt
			if unreadable {
				once = &unread
			}
			once.Do(func() { fl.report(outcome{attempt: a, isSpoilt: true, isUnreadable: unreadable}) })
		}
		var o outcome
		defer func() {
			o.attempt = t.attempt
			fl.report(o)
		}()
		defer f.recovered(func(err error) { o.err = err })
		o.msg, o.err = t.run(ctx)
	})
}
