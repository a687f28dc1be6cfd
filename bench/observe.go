package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/node-dns/node-dns/bench/result"
)

// observe asks, and notes what it cost.
func (b *bench) observe(w workload, s *server, at slice, run *result.Run) error {
	l, err := b.ask(w, s, "m"+at.String(), b.settings.Seconds)
	if err != nil {
		return err
	}
	if w.once {
		l.seconds, l.limit = 0, onceLimit
	}
	profiled, err := profile(b.profiles, fmt.Sprintf("%s-%s-%d", w.Name, s.peer.name, at.round), s.pids())
	if err != nil {
		return fmt.Errorf("profiling: %w", err)
	}
	before, err := b.reading(s)
	if err != nil {
		return err
	}
	seen, client, err := b.dnsperf(l)
	if err != nil {
		return err
	}
	after, err := b.reading(s)
	if err != nil {
		return err
	}
	if err := profiled(); err != nil {
		return fmt.Errorf("profiling: %w", err)
	}
	run.Sent, run.Lost, run.Answered = seen.sent, seen.sent-seen.completed, seen.answered()
	run.Failed = seen.completed - run.Answered
	run.Seconds, run.P50, run.P99 = seen.seconds, seen.quantile(0.5), seen.quantile(0.99)
	run.CPU = (after.server - before.server).Seconds()
	foreign := after.busy - before.busy - (after.ours - before.ours) - client
	run.Foreign = max(0, foreign.Seconds()/after.at.Sub(before.at).Seconds())
	return nil
}

// A server is quiet when it used less than quietShare of a core for a quietPause. After quietLimit
// the next slice begins anyway: the CPU time then counts there as other programs'.
const (
	quietPause = 50 * time.Millisecond
	quietShare = 0.05
	quietLimit = 3 * time.Second
)

// quieten waits until a server has finished the work of its slice, which would disturb the next one.
func (b *bench) quieten(s *server) error {
	last, err := b.reading(s)
	for deadline := last.at.Add(quietLimit); err == nil && last.at.Before(deadline); {
		time.Sleep(quietPause)
		var now reading
		if now, err = b.reading(s); err != nil || float64(now.server-last.server) < quietShare*float64(now.at.Sub(last.at)) {
			break
		}
		last = now
	}
	return err
}

// reading is the state of the counters at one moment.
type reading struct {
	at           time.Time
	busy         time.Duration // of the CPUs
	server, ours time.Duration // what of it the server took; and it, the upstream nameserver, the kernel for them, and we
}

func (b *bench) reading(s *server) (reading, error) {
	all, err := processes()
	if err != nil {
		return reading{}, err
	}
	r := reading{at: time.Now(), ours: all.softirqd() + exact(os.Getpid(), 0)}
	for _, pid := range s.pids() {
		r.server += all.cpu(pid)
	}
	for _, pid := range b.upstream.pids() {
		r.ours += all.cpu(pid)
	}
	r.ours += r.server
	r.busy, err = busy(b.cpus)
	return r, err
}

// ask is the load of a workload for some seconds.
func (b *bench) ask(w workload, s *server, series string, seconds float64) (load, error) {
	name, q := w.queries(series, seconds)
	l, err := b.load(name, q, w, s)
	l.seconds = seconds
	return l, err
}

// load is that of a workload, with a file of these queries.
func (b *bench) load(name string, q queries, w workload, s *server) (load, error) {
	path := filepath.Join(b.place.dirOf(dnsperf), name)
	l := load{file: b.place.seen(dnsperf, path), port: s.port, clients: clients, rate: w.rate, tcp: w.tcp}
	if w.bad {
		l.clients = goodClients
	}
	if b.files[name] {
		return l, nil
	}
	b.files[name] = true
	f, err := os.Create(path)
	if err != nil {
		return l, err
	}
	defer f.Close()
	if err := q.writeTo(f); err != nil {
		return l, fmt.Errorf("writing queries: %w", err)
	}
	return l, f.Close()
}

// discard removes the files of a workload's new names.
func (b *bench) discard(w workload) {
	for name := range b.files {
		if strings.HasPrefix(name, w.Name+".") {
			os.Remove(filepath.Join(b.place.dirOf(dnsperf), name)) // at the end all are removed
			delete(b.files, name)
		}
	}
}

// dnsperf is the client.
var dnsperf = debian("dnsperf")

// dnsperf runs the client to its end, and returns what it saw and how long it was on a CPU.
func (b *bench) dnsperf(l load) (outcome, time.Duration, error) {
	command, err := b.place.command(dnsperf)
	if err != nil {
		return outcome{}, 0, err
	}
	c, err := start(b.place.dir, append(command, l.args()...))
	if err != nil {
		return outcome{}, 0, err
	}
	defer os.Remove(c.output.Name()) // a line a query
	defer c.output.Close()
	if err := c.wait(time.Duration(l.seconds+l.limit)*time.Second + 20*time.Second); err != nil {
		return outcome{}, 0, err
	}
	usage := c.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	used := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	seen, err := parseDnsperf(c.text())
	return seen, used, err
}
