package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/node-dns/node-dns/bench/result"
)

// contender is a peer of a row and its server, which keeps running through all slices of the row.
type contender struct {
	peer   peer
	server *server // nil if not started, or stopped after a failure
	out    bool    // failed all tries of a slice; gets no more slices
}

// row measures a workload. All its servers run at the same time and take turns in short slices, so
// a slowdown of the machine affects all of them.
func (b *bench) row(ctx context.Context, w workload, peers []peer) (runs []result.Run) {
	defer b.discard(w)
	contenders := make([]contender, len(peers))
	for i, p := range peers {
		contenders[i].peer = p
		defer contenders[i].stop()
		if ctx.Err() == nil {
			b.prepare(w, &contenders[i]) // its first slice reports an error again
		}
	}
	for round := 1; round <= b.settings.Rounds; round++ {
		for _, i := range turns(b.settings.Seed, w.Name, round, len(peers)) {
			c := &contenders[i]
			if ctx.Err() != nil || c.out {
				continue
			}
			runs = append(runs, b.measure(ctx, w, c, round))
		}
	}
	return runs
}

// once measures a workload without slices: each peer alone, from its start.
func (b *bench) once(ctx context.Context, w workload, peers []peer) (runs []result.Run) {
	for _, p := range peers {
		if ctx.Err() != nil {
			break
		}
		c := contender{peer: p}
		runs = append(runs, b.measure(ctx, w, &c, 1))
		c.stop()
	}
	return runs
}

// turns returns the order in which n servers have their slices in a round. It depends only on its
// arguments, so that a run can be repeated.
func turns(seed uint64, workload string, round, n int) []int {
	stream := uint64(round)
	for _, octet := range []byte(workload) {
		stream = stream*31 + uint64(octet)
	}
	return rand.New(rand.NewPCG(seed, stream)).Perm(n)
}

// measure measures one slice of a server, repeatedly until no other program disturbs it. It returns
// the least disturbed try.
func (b *bench) measure(ctx context.Context, w workload, c *contender, round int) result.Run {
	var best result.Run
	for try := 1; try <= b.settings.Tries && ctx.Err() == nil; try++ {
		run, err := b.try(ctx, w, c, slice{round, try})
		if err == nil {
			err = b.quieten(c.server)
		}
		if err != nil {
			run.Error = err.Error()
			c.stop()
		}
		if try == 1 || best.Error != "" || run.Error == "" && run.Foreign < best.Foreign {
			best = run
		}
		best.Tries = try
		if best.Error == "" && best.Foreign <= b.settings.Foreign {
			break
		}
	}
	c.out = best.Error != ""
	best.Workload, best.Peer, best.Round = w.Name, c.peer.name, round
	progress(best)
	return best
}

// progress prints a measurement while others follow.
func progress(r result.Run) {
	fmt.Fprintf(os.Stderr, "%-13s round %d %-19s %6.2f CPU-s/M %7.0f answers/s  lost %d failed %d foreign %.2f %s\n",
		r.Workload, r.Round, r.Peer, r.Cost(), float64(r.Answered)/max(r.Seconds, 1e-9), r.Lost, r.Failed, r.Foreign, r.Error)
}

func (c *contender) stop() {
	if c.server != nil {
		c.server.stop()
		c.server = nil
	}
}
