package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/bench/machine"
	"github.com/node-dns/node-dns/bench/result"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/faultplan"
)

// faultPeers are the servers for the fault matrix.
var faultPeers = []peer{
	{
		name: result.Ours, program: ofTree("node-dns"), config: "faults/node-dns.yaml", version: []string{"--version"},
		argv: []string{"serve", "--root={{.Dir}}", "--config={{.Config}}"},
	},
	{name: "dnsmasq", program: debian("dnsmasq"), config: "faults/dnsmasq.conf", argv: []string{"-k", "-C", "{{.Config}}"}, version: []string{"--version"}},
	{
		name: "dnsmasq --all-servers", program: debian("dnsmasq"), config: "faults/dnsmasq.conf",
		argv: []string{"-k", "-C", "{{.Config}}", "--all-servers"}, version: []string{"--version"},
	},
	{name: "unbound", program: debian("unbound"), config: "faults/unbound.conf", argv: []string{"-d", "-c", "{{.Config}}"}, version: []string{"-V"}},
}

// chooseRows returns the rows whose names match.
func chooseRows(pattern string) (rows []faultplan.Row, err error) {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	for _, row := range faultplan.Rows() {
		if match.MatchString(row.Name) {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no row matches %q", pattern)
	}
	return rows, nil
}

// measureFaults gets the programs and runs all rows with each server.
func (o options) measureFaults(ctx context.Context) (report result.FaultReport, err error) {
	cpus, err := pin()
	if err != nil {
		return report, err
	}
	if report.Missing, err = prepare(ctx, o.programs, "", faultPeers); err != nil {
		return report, err
	}
	at, err := newPlace(o.programs)
	if err != nil {
		return report, err
	}
	defer at.remove()
	report.Schema, report.Taken, report.Revision = result.Schema, time.Now().UTC().Round(time.Second), machine.Revision(ctx)
	report.Machine, report.Seconds = machine.Read(cpus), o.settings.Seconds
	for _, p := range faultPeers {
		report.Peers = append(report.Peers, result.Peer{Name: p.name, Version: at.versionOf(p)})
	}
	for _, row := range o.rows {
		played := result.FaultRow{Name: row.Name, Promise: row.Promise}
		report.Rows = append(report.Rows, played)
		if row.Told {
			continue // only for the tests
		}
		for _, p := range faultPeers {
			if ctx.Err() != nil {
				return report, ctx.Err()
			}
			run := at.play(row, p, o.settings.Seconds)
			fmt.Fprintf(os.Stderr, "%s: %s: %s\n", row.Name, p.name, run)
			played.Runs = append(played.Runs, run)
		}
		report.Rows[len(report.Rows)-1] = played
	}
	return report, nil
}

// play runs a row with a new server.
func (p place) play(row faultplan.Row, of peer, seconds float64) result.FaultRun {
	var s *server
	outcome, err := row.Play(faultplan.Size{Length: time.Duration(seconds * float64(time.Second)), Part: 1}, func(setup faultplan.Setup) (*faultplan.Program, error) {
		at, err := dnstest.FindPort()
		if err != nil {
			return nil, err
		}
		if s, err = p.launch(of, faultValues(setup, int(at.Port())), nil); err != nil {
			return nil, err
		}
		return s.underFaults(), s.awaitAny()
	})
	if s != nil {
		s.stop()
	}
	run := result.FaultRun{Peer: of.name, Outcome: outcome}
	if err != nil {
		run.Error = err.Error()
	}
	return run
}

// octetsOfAnswer is the approximate size of an answer in each of unbound's two caches.
const octetsOfAnswer = 400

func faultValues(setup faultplan.Setup, port int) values {
	v := values{
		Port: port, Threads: cores, Zone: strings.TrimSuffix(setup.Zone, "."), ZoneUpstream: int(setup.ZoneServer.Port()),
		CacheSize: setup.CacheSize, CacheOctets: setup.CacheSize * octetsOfAnswer,
	}
	for _, upstream := range setup.Upstreams {
		v.Upstreams = append(v.Upstreams, int(upstream.Port()))
	}
	if len(v.Upstreams) == 0 {
		v.Upstreams = []int{port} // it queries itself
	}
	return v
}

// underFaults returns the server in the form that rows use.
func (s *server) underFaults() *faultplan.Program {
	return &faultplan.Program{
		At:        netip.MustParseAddrPort(s.address()),
		Terminate: s.stop,
		Running:   func() bool { return s.ended() == nil },
		Memory: func() float64 {
			mb, _ := memoryOf("VmRSS", s.pids()...) // 0 if it has ended
			return mb
		},
		CPU: func() (sum time.Duration) {
			all, err := processes()
			if err != nil {
				return 0
			}
			for _, pid := range s.pids() {
				sum += all.cpu(pid)
			}
			return sum
		},
	}
}

// awaitAny waits until the server responds to a query that it does not forward, because some
// upstreams loop.
func (s *server) awaitAny() error {
	client := dns.Client{Timeout: 250 * time.Millisecond}
	question := new(dns.Msg).SetQuestion("version.bind.", dns.TypeTXT)
	question.Question[0].Qclass = dns.ClassCHAOS
	for deadline := time.Now().Add(startLimit); ; time.Sleep(20 * time.Millisecond) {
		if _, _, err := client.Exchange(question, s.address()); err == nil {
			return nil
		}
		if err := s.ended(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer: %s", s.peer.name, lastLine(s.children[0].text()))
		}
	}
}
