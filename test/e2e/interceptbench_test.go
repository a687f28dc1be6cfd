package e2e

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/node-dns/node-dns/bench/machine"
	"github.com/node-dns/node-dns/bench/result"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// podServer answers the node's pods in place of kube-dns, while it works.
type podServer interface {
	start()
	stop() // returns when the process has ended
	server() *lab.Process
}

// contender is a podServer in the benchmark, with the pauses of what restarts it.
type contender struct {
	name      string
	answer    string // of its upstream
	version   func(t testing.TB) string
	make      func(t testing.TB, b *proxyBed) podServer
	replaced  time.Duration // from the end of a process that was stopped to the next start
	restarted time.Duration // from the end of a process that was killed to the next start
}

// contenders in the order of the rows. systemd starts a stopped node-dns at once, and a killed one
// after RestartSec=. The kubelet looks for containers that ended once a second, and the DaemonSet's
// controller replaces a pod after it has ended. Their other work is not simulated.
var contenders = []contender{
	{
		name: result.Ours, answer: nodeDNSAnswer, make: func(t testing.TB, b *proxyBed) podServer { return newInterceptBed(t, b) },
		version: func(t testing.TB) string { return machine.Revision(t.Context()) }, restarted: 100 * time.Millisecond,
	},
	{
		name: "NodeLocal DNSCache", answer: nodeLocalAnswer, make: func(t testing.TB, b *proxyBed) podServer { return newNodeLocal(t, b) },
		version:  func(t testing.TB) string { return machine.ModuleVersion(nodeCache(t)) },
		replaced: time.Second, restarted: time.Second,
	},
}

// start starts the daemon, and the helper if it does not run.
func (i *interceptBed) start() {
	i.t.Helper()
	i.startDaemon()
	if i.helper == nil || !i.helper.Running() {
		i.startHelper()
	}
}

func (i *interceptBed) stop() { i.daemon.Stop() }

func (i *interceptBed) server() *lab.Process { return i.daemon }

const (
	interceptRounds = 3
	// hang is longer than clients wait. Otherwise the queries that wait in the socket of a server
	// that hangs are lost or not by milliseconds.
	hang = podLoadTimeout + time.Second
)

// outage is an event of the benchmark, and the answers that the pod gets before and after it.
type outage struct {
	result.Event
	isFirst, isLast bool // kube-dns answers before, or after
	happen          func(c contender, s podServer)
}

var outages = []outage{
	{
		Event:   result.Event{Name: "start", Means: "the program starts while kube-dns answers; for node-dns, its helper too"},
		isFirst: true, happen: func(_ contender, s podServer) { s.start() },
	},
	{
		Event: result.Event{Name: "restart or upgrade", Means: "SIGTERM; the next process starts at once (systemd), or a second after the end (the DaemonSet's controller, the kubelet)"},
		happen: func(c contender, s podServer) {
			s.stop()
			time.Sleep(c.replaced)
			s.start()
		},
	},
	{
		Event: result.Event{Name: "SIGKILL", Means: "the next process starts after 100 ms (systemd), or after a second (the kubelet)"},
		happen: func(c contender, s podServer) {
			s.server().Kill()
			time.Sleep(c.restarted)
			s.start()
		},
	},
	{
		Event: result.Event{Name: "hangs for 6 s", Means: "SIGSTOP, and SIGCONT after six seconds; systemd's watchdog (three seconds) and the kubelet's probe (25 seconds and more) do not act"},
		happen: func(_ contender, s podServer) {
			s.server().Signal(syscall.SIGSTOP)
			time.Sleep(hang)
			s.server().Signal(syscall.SIGCONT)
		},
	},
	{
		Event:  result.Event{Name: "removal", Means: "SIGTERM"},
		isLast: true, happen: func(_ contender, s podServer) { s.stop() },
	},
}

// BenchmarkIntercept measures what a pod loses when something happens to node-dns with interception
// and to NodeLocal DNSCache. No systemd and no kubelet run: systemd would also keep node-dns's
// sockets, with the queries that wait there. It runs once (-benchtime 1x), and writes
// bench/results/intercept.*.
func BenchmarkIntercept(b *testing.B) {
	report := result.OutageReport{
		Schema: result.Schema, Taken: time.Now().UTC().Round(time.Second), Revision: machine.Revision(b.Context()),
		Machine: machine.Read(nil), Load: machine.Load(), PerSecond: interceptRate,
	}
	for _, c := range contenders {
		report.Peers = append(report.Peers, result.Peer{Name: c.name, Version: c.version(b)})
	}
	for _, o := range outages {
		report.Events = append(report.Events, o.Event)
	}
	cluster := newProxyCluster(b, bed4)
	for round := range interceptRounds {
		for _, mode := range proxyModes {
			for _, c := range contenders {
				b.Run(fmt.Sprintf("%s/%s/%d", mode, c.name, round+1), func(b *testing.B) {
					runtime.GC() // not during the load, if possible
					bed := newProxyBed(b, cluster, bed4)
					if _, err := bed.startProxy(mode); err != nil {
						b.Fatal(err)
					}
					for _, run := range bed.outages(c) {
						run.Proxy, run.Round = mode, round+1
						report.Runs = append(report.Runs, run)
					}
				})
			}
		}
	}
	if want := len(outages) * interceptRounds * len(proxyModes) * len(contenders); len(report.Runs) != want {
		b.Logf("nothing is written: %d runs of %d", len(report.Runs), want)
		return
	}
	if err := result.SaveOutages(product+"/bench/results", report); err != nil {
		b.Fatal(err)
	}
}

// outages measures all events with a contender.
func (b *proxyBed) outages(c contender) (runs []result.Outage) {
	b.t.Helper()
	const some = interceptRate / 2
	s := c.make(b.t, b)
	for _, o := range outages {
		before, after := c.answer, c.answer
		if o.isFirst {
			before = kubeDNSAnswer
		}
		if o.isLast {
			after = kubeDNSAnswer
		}
		r := b.underLoad(func(l *podLoad) {
			b.awaitAnswers(l, before, some)
			o.happen(c, s)
			b.awaitAnswers(l, after, some)
		})
		b.t.Logf("%s: %s", o.Name, r)
		runs = append(runs, result.Outage{
			Event: o.Name, Peer: c.name, Sent: r.sent, Lost: len(r.lost),
			GapMS: milliseconds(r.gap), LateMS: milliseconds(r.behind),
		})
	}
	return runs
}

func milliseconds(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }
