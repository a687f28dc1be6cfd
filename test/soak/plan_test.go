package soak

import (
	"net/netip"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// rig is a node with its upstream nameservers and its cluster.
type rig struct {
	*node
	sites [2]*site
	api   *kubetest.Server
	usual config
}

// step is one fault.
type step struct {
	name string
	// outage is set if new names may remain unanswered.
	outage bool
	do     func(r *rig, pause func(time.Duration))
}

const (
	brief  = 800 * time.Millisecond // duration of a fault
	moment = 200 * time.Millisecond
)

// moodStep returns a step that changes the mood of the first of two upstream nameservers.
func moodStep(name string, m mood) step {
	return step{name: "A " + name, do: func(r *rig, pause func(time.Duration)) {
		r.sites[0].set(m)
		pause(brief)
		r.sites[0].set(fine)
	}}
}

// steps returns the steps of one round.
func steps() []step {
	return []step{
		moodStep("black-holed", silent),
		moodStep("slow", slow),
		moodStep("loses a third", losing),
		moodStep("answers SERVFAIL", servfail),
		moodStep("answers REFUSED", refused),
		moodStep("truncates, and has no TCP", truncated),
		moodStep("sends garbage", garbage),
		moodStep("answers another question", foreign),
		{name: "A's port closed", do: func(r *rig, pause func(time.Duration)) {
			r.sites[0].close()
			pause(brief)
			r.sites[0].open()
		}},
		{name: "A flaps", do: func(r *rig, pause func(time.Duration)) {
			for range 3 {
				r.sites[0].set(silent)
				pause(moment)
				r.sites[0].set(fine)
				pause(moment)
			}
		}},
		{name: "A and B dead", outage: true, do: func(r *rig, pause func(time.Duration)) {
			r.sites[0].set(silent)
			r.sites[1].close()
			pause(4 * brief)
			r.sites[0].set(fine)
			r.sites[1].open()
		}},
		{name: "reloads", do: func(r *rig, pause func(time.Duration)) {
			for range 5 {
				r.reload()
				pause(moment)
			}
		}},
		{name: "a configuration with faults", do: func(r *rig, pause func(time.Duration)) {
			r.write("/etc/node-dns/node-dns.yaml", "listen: [\n")
			r.reload()
			pause(brief)
			r.configure(r.usual)
			pause(moment)
		}},
		{name: "other upstreams", do: func(r *rig, pause func(time.Duration)) {
			c := r.usual
			for i := range 4 {
				c.upstreams = []netip.AddrPort{r.sites[i%2].at}
				r.configure(c)
				pause(moment)
			}
			r.configure(r.usual)
			pause(moment)
		}},
		{name: "the log level", do: func(r *rig, pause func(time.Duration)) {
			c := r.usual
			c.level = "error"
			r.configure(c)
			pause(moment)
			r.configure(r.usual)
			pause(moment)
		}},
		{name: "addresses come and go", do: func(r *rig, pause func(time.Duration)) {
			c := r.usual
			for i := range 3 {
				c.listen = append(c.listen[:1:1], netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 3, 0, byte(1 + i)}), r.at.Port()))
				r.configure(c)
				pause(moment)
			}
			r.configure(r.usual)
			pause(moment)
		}},
		{name: "the Kubernetes API ends", do: func(r *rig, pause func(time.Duration)) {
			r.api.CloseConnections()
			pause(brief)
		}},
	}
}

// calm is the end of a round without a fault, where resource usage must be back to normal.
const calm = "calm"

// leastRounds is the minimum number of rounds, however long they take. Later rounds are compared
// with the first.
const leastRounds = 3

// play runs the faults in rounds until length has passed, and calls look at the end of each round.
func (r *rig) play(length time.Duration, t *tally, look func()) {
	for n, began := 0, time.Now(); n < leastRounds || time.Since(began) < length; n++ {
		for _, s := range steps() {
			t.begin(s.name, s.outage)
			s.do(r, time.Sleep)
			t.begin(calm, false)
			if s.outage {
				time.Sleep(aftermath)
			}
			time.Sleep(moment)
		}
		r.await("the usual configuration", func(s control.Status) bool {
			return len(s.Problems) == 0 && len(s.Listeners) == 1
		})
		time.Sleep(time.Second)
		look()
	}
}
