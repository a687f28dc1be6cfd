package main

import (
	"context"

	"github.com/node-dns/node-dns/bench/result"
)

// bench measures. It runs one server at a time.
type bench struct {
	place    place
	settings result.Settings
	cpus     []int
	upstream *server
	api      api
	files    map[string]bool // those of queries that are written
	profiles string          // directory for profiles of the servers; none: there are none
}

// warmup is how long, in seconds, a server is asked as in the measurement before that begins, and onceLimit how long a pass of unique
// names may take.
const (
	warmup    = 1
	onceLimit = 60
)

// measure has a peer under a workload, fresh, as often as it takes until nobody disturbs it; it keeps the least disturbed try.
func (b *bench) measure(ctx context.Context, w workload, p peer, round int) result.Run {
	var best result.Run
	for try := 1; try <= b.settings.Tries && ctx.Err() == nil; try++ {
		run, err := b.try(ctx, w, p)
		if err != nil {
			run.Error = err.Error()
		}
		if try == 1 || best.Error != "" || run.Error == "" && run.Foreign < best.Foreign {
			best = run
		}
		best.Tries = try
		if best.Error == "" && best.Foreign <= b.settings.Foreign {
			break
		}
	}
	best.Workload, best.Peer, best.Round = w.Name, p.name, round
	return best
}

func (b *bench) try(ctx context.Context, w workload, p peer) (run result.Run, err error) {
	names, kubeconfig := []string{"h00000.example.com"}, []byte(nil)
	if w.cluster {
		names = append(names, service(0), service(services-1))
		if kubeconfig, err = b.api.kubeconfig(); err != nil {
			return run, err
		}
	}
	s, err := b.place.serve(p, b.upstream.port, kubeconfig, names...)
	if err != nil {
		return run, err
	}
	defer s.stop()
	if err := b.warm(w, s); err != nil {
		return run, err
	}
	if w.memory {
		if run.HitsMB, err = memoryOf("VmRSS", s.pids()...); err != nil {
			return run, err
		}
		if err := forgetPeak(s.pids()...); err != nil {
			return run, err
		}
	}
	if w.bad {
		done := badClients(ctx, s.address(), w.rate)
		defer done()
	}
	if err := b.observe(w, s, &run); err != nil {
		return run, err
	}
	if w.memory {
		run.Names = run.Sent
		run.MissesMB, err = memoryOf("VmHWM", s.pids()...)
	}
	return run, err
}

// warm asks each name that is to be remembered once, over UDP, for some servers ask on over TCP what they are asked over TCP; and then
// as the measurement will.
func (b *bench) warm(w workload, s *server) error {
	l, err := b.load(w.Name+".before", w.before, w, s)
	if err != nil {
		return err
	}
	l.rate, l.tcp, l.seconds, l.limit, l.gently = 0, false, 0, onceLimit, true
	if _, _, err := b.dnsperf(l); err != nil || w.once {
		return err
	}
	if l, err = b.load(w.Name+".warm", w.warm(), w, s); err != nil {
		return err
	}
	l.seconds = warmup
	_, _, err = b.dnsperf(l)
	return err
}
