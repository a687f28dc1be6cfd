package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/node-dns/node-dns/bench/result"
)

// observe runs the load of a slice and records its cost.
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
	seen, client, err := b.clients(l)
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
	run.P999, run.Max = seen.quantile(0.999), seen.worst()
	run.CPU = (after.server - before.server).Seconds()
	foreign := after.busy - before.busy - (after.ours - before.ours) - client
	run.Foreign = max(0, foreign.Seconds()/after.at.Sub(before.at).Seconds())
	return nil
}

// A server is quiet if it used less than quietShare of a core for a quietPause. After quietLimit
// the next slice begins anyway; the CPU time that is still used counts there as other programs'
// time.
const (
	quietPause = 50 * time.Millisecond
	quietShare = 0.05
	quietLimit = 3 * time.Second
)

// quieten waits until a server has finished the work of its slice, which would disturb the next
// one.
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

// reading is a snapshot of the counters.
type reading struct {
	at   time.Time
	busy time.Duration // of the CPUs
	// server is the CPU time of the server. ours is the sum for the server, its neighbors, the
	// upstream nameserver, the kernel for them, and this program.
	server, ours time.Duration
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
	for _, c := range s.busy {
		r.ours += all.cpu(c.pid())
	}
	r.ours += r.server
	r.busy, err = busy(b.cpus)
	return r, err
}

// loadOf returns the load of a workload for a server.
func (w workload) loadOf(s *server) load {
	l := load{addresses: s.asked, port: s.port, clients: clients, rate: w.rate, tcp: w.tcp, short: w.short}
	if w.bad {
		l.clients = goodClients
	}
	return l
}

// ask returns the load of a workload for some seconds.
func (b *bench) ask(w workload, s *server, series string, seconds float64) (load, error) {
	name, q := w.queries(series, seconds)
	l := w.loadOf(s)
	l.seconds = seconds
	err := b.write(&l, name, q)
	return l, err
}

// write writes the load's query file, unless it was written for another server.
func (b *bench) write(l *load, name string, q queries) error {
	of, _ := l.commands()
	path := filepath.Join(b.place.dirOf(of), name)
	l.file = b.place.seen(of, path)
	if b.files[path] {
		return nil
	}
	b.files[path] = true
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := q.writeTo(f); err != nil {
		return fmt.Errorf("writing queries: %w", err)
	}
	return f.Close()
}

// discard removes the files of a workload's new names.
func (b *bench) discard(w workload) {
	for path := range b.files {
		if strings.HasPrefix(filepath.Base(path), w.Name+".") {
			os.Remove(path) // all are removed at the end
			delete(b.files, path)
		}
	}
}

// clients runs the clients of a load to their end, and returns their outcome and CPU time.
func (b *bench) clients(l load) (seen outcome, used time.Duration, err error) {
	of, args := l.commands()
	command, err := b.place.command(of)
	if err != nil {
		return seen, 0, err
	}
	var running []*child
	for _, a := range args {
		c, err := start(b.place.dir, slices.Concat(command, a))
		if err != nil {
			return seen, 0, err
		}
		defer os.Remove(c.output.Name()) // it has one line per query
		defer c.stop()
		running = append(running, c)
	}
	seen.codes = map[string]int64{}
	for _, c := range running {
		if err := c.wait(time.Duration(l.seconds+l.limit)*time.Second + 20*time.Second); err != nil {
			return seen, 0, err
		}
		usage := c.cmd.ProcessState.SysUsage().(*syscall.Rusage)
		used += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		one, err := parseDnsperf(c.text())
		if err != nil {
			return seen, 0, err
		}
		seen.add(one)
	}
	if l.rate > 0 {
		seen.addLost()
	}
	return seen, used, nil
}
