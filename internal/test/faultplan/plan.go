// Package faultplan describes what can go wrong around a nameserver: the fault, the questions sent
// during it, and the expected result.
//
// It is separate from dnstest, which simulates one nameserver: here are the rows of a matrix, with
// all the upstream nameservers that each needs. It is separate from its two users: test/faults
// checks by counts what node-dns promises, and bench measures several programs with the same rows.
package faultplan

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// A Row is one fault.
type Row struct {
	Name    string // as docs/appendix/faults.md calls it
	Promise string // what node-dns does, in a phrase
	// Told means that the program is reconfigured while it runs, which not every program supports.
	Told bool
	// Timed means that the row measures times, so that it must run alone.
	Timed bool

	servers   int    // number of upstream nameservers: A, B and so on; 0 means two
	records   string // records of the upstream nameservers; "" gives every name the address of everyName
	zone      string // zone with its own upstream nameserver; "" means none
	itself    bool   // the program is its own upstream nameserver
	cacheSize int    // maximum number of cached responses for a Size of 1; 0 means 10,000
	play      func(*stage) error
	want      func(Outcome) string // describes what is wrong, or returns ""; nil means that all answers must be right
}

// everyName are the records of upstream nameservers, and address is their answer for each name.
const (
	everyName = "*. 300 IN A " + address
	address   = "192.0.2.80"
)

// maxUpstream is the maximum number of queries for one question, with each of two servers queried
// twice. checks is the maximum number of additional checks of silent servers.
const (
	maxUpstream = 4
	checks      = 20
)

// A Setup is the configuration of a program. Everything else has its default.
type Setup struct {
	Upstreams  []netip.AddrPort // for all names; if empty, the program's own address
	Zone       string           // names below it go to ZoneServer; "" disables it
	ZoneServer netip.AddrPort
	CacheSize  int // maximum number of responses, or the closest setting
}

// A Program is a running program that answers. Its functions may be called after it has ended.
type Program struct {
	At           netip.AddrPort
	Terminate    func()                           // sends SIGTERM and returns when the program has ended
	Running      func() bool                      // false if it has ended by itself
	Memory       func() float64                   // resident, in MB; 0 if unknown
	CPU          func() time.Duration             // used so far; 0 if unknown
	SetUpstreams func(all []netip.AddrPort) error // changes them while it runs; nil if not supported
}

// A Size scales a run.
type Size struct {
	Length time.Duration // duration of a fault
	Part   int           // divisor for the number of names: 1 for the number in the row, 10 for a tenth
}

// Play runs a row. start starts the program and returns when it answers; the caller of Play stops
// it.
func (r Row) Play(size Size, start func(Setup) (*Program, error)) (Outcome, error) {
	s := &stage{size: size, main: new(tally)}
	defer s.close()
	setup, err := r.serve(s)
	if err != nil {
		return Outcome{}, err
	}
	if s.program, err = start(setup); err != nil {
		return Outcome{}, fmt.Errorf("starting the program: %w", err)
	}
	before := s.queries()
	if err := r.play(s); err != nil {
		return Outcome{}, fmt.Errorf("playing %q: %w", r.Name, err)
	}
	o := s.main.outcome()
	o.Upstream = s.queries() - before
	if s.counted {
		o.Upstream = s.upstream
	}
	o.Facts = s.facts
	return o, nil
}

// serve starts the upstream nameservers.
func (r Row) serve(s *stage) (setup Setup, err error) {
	setup.CacheSize = defaultCache
	if r.cacheSize > 0 {
		setup.CacheSize = r.cacheSize / s.size.Part
	}
	records, servers := r.records, r.servers
	if records == "" {
		records = everyName
	}
	if servers == 0 {
		servers = 2
	}
	for range servers {
		if err := s.start(records); err != nil {
			return setup, err
		}
	}
	for _, server := range s.up {
		setup.Upstreams = append(setup.Upstreams, server.Addr())
	}
	if r.itself {
		setup.Upstreams = nil
	}
	if r.zone != "" {
		if err := s.start(records); err != nil {
			return setup, err
		}
		setup.Zone, setup.ZoneServer = r.zone, s.up[len(s.up)-1].Addr()
	}
	return setup, nil
}

// defaultCache is node-dns's default cache size.
const defaultCache = 10_000

// Faults returns how an outcome differs from what node-dns promises.
func (r Row) Faults(o Outcome) (faults []string) {
	want := r.want
	if want == nil {
		want = allRight
	}
	if fault := want(o); fault != "" {
		faults = append(faults, fault)
	}
	if o.Wrong > 0 || o.Silent > 0 {
		faults = append(faults, fmt.Sprintf("%d answers are wrong, %d questions were not answered", o.Wrong, o.Silent))
	}
	if n := maxUpstream*o.Asked + checks; o.Upstream > n {
		faults = append(faults, fmt.Sprintf("%d queries to upstream nameservers, %d at most are allowed", o.Upstream, n))
	}
	return faults
}

// Rows returns all rows in the order of the matrix.
func Rows() []Row {
	return slices.Concat(oneBad(), allDead(), slowOnes(), floods(), load(), wire(), largeLost())
}

// stage is the environment in which a row runs.
type stage struct {
	size    Size
	up      []*dnstest.Server // A, B, and that of the zone
	program *Program
	main    *tally
	facts   []Fact

	counted  bool // upstream replaces the number of all upstream queries in the Outcome
	upstream int
}

func (s *stage) start(records string) error {
	server, err := dnstest.Start(records)
	if err != nil {
		return err
	}
	s.up = append(s.up, server)
	return nil
}

func (s *stage) close() {
	for _, server := range s.up {
		server.Close()
	}
}

// queries returns the number of queries to the upstream nameservers so far.
func (s *stage) queries() (n int) {
	for _, server := range s.up {
		n += server.Queries()
	}
	return n
}

// faults sets the same faults for all upstream nameservers.
func (s *stage) faults(f dnstest.Faults) {
	for _, server := range s.up {
		server.SetFaults(f)
	}
}

// count sets the number of upstream queries that the row measures.
func (s *stage) count(upstream int) { s.counted, s.upstream = true, upstream }

// note records a number that the row measures.
func (s *stage) note(name string, value float64) { s.facts = append(s.facts, Fact{name, value}) }
