// Package faultplan is what can go wrong around a nameserver: which fault, what is asked meanwhile, and what must come of
// that.
//
// It is apart from dnstest, which plays one nameserver: here are the rows of a matrix, with all the upstream nameservers
// that one takes. It is apart from those that play the rows, for there are two: test/faults holds what node-dns promises,
// by counts, and bench measures how long several programs take, in the same rows.
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
	// Told says that the program is told something while it runs, which not every one can be.
	Told bool
	// Timed says that the row is about times, so that it is to be played alone.
	Timed bool

	servers   int    // upstream nameservers, A, B and so on; 0: two
	records   string // what they know; "": every name has the address of everyName
	zone      string // names below it have an upstream nameserver of their own; "": there is none
	itself    bool   // the program's upstream nameserver is the program
	cacheSize int    // responses that it may remember, for a Size of 1; 0: 10,000
	play      func(*stage) error
	want      func(Outcome) string // what is wrong; "": nothing. nil: all must be right
}

// everyName are the records of upstream nameservers, address what they say of each name.
const (
	everyName = "*. 300 IN A " + address
	address   = "192.0.2.80"
)

// maxUpstream is how many queries one question may cause, each of two servers being asked twice; checks how many there may be
// besides, whether servers that were silent are there.
const (
	maxUpstream = 4
	checks      = 20
)

// A Setup is what a program is to be told. Whatever else is as it comes.
type Setup struct {
	Upstreams  []netip.AddrPort // of all names; none: its own address
	Zone       string           // names below it are asked of ZoneServer; "": there is none
	ZoneServer netip.AddrPort
	CacheSize  int // responses, or as near as that can be said
}

// A Program runs, and answers. Its functions may be called once it is done.
type Program struct {
	At           netip.AddrPort
	Terminate    func()                           // SIGTERM; it returns when the program has ended
	Running      func() bool                      // it has not ended by itself
	Memory       func() float64                   // resident, in MB; 0: unknown
	CPU          func() time.Duration             // that it took so far; 0: unknown
	SetUpstreams func(all []netip.AddrPort) error // while it runs; nil: there is no way
}

// A Size is how much is played.
type Size struct {
	Length time.Duration // of a fault that lasts
	Part   int           // 1: as many names as the row says, 10: a tenth
}

// Play plays a row. start starts the program, and returns when that answers; who calls stops it.
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

// defaultCache is what node-dns remembers where nothing else is said.
const defaultCache = 10_000

// Faults says in what an outcome is not what node-dns promises; none: in nothing.
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

// Rows are all, in the order of the matrix.
func Rows() []Row {
	return slices.Concat(oneBad(), allDead(), slowOnes(), floods(), load(), wire(), largeLost())
}

// stage is where a row is played.
type stage struct {
	size    Size
	up      []*dnstest.Server // A, B, and that of the zone
	program *Program
	main    *tally
	facts   []Fact

	counted  bool // upstream is to be said of the row, and not all that upstream nameservers got
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

// queries is how many the upstream nameservers got so far.
func (s *stage) queries() (n int) {
	for _, server := range s.up {
		n += server.Queries()
	}
	return n
}

// faults orders the same of all upstream nameservers.
func (s *stage) faults(f dnstest.Faults) {
	for _, server := range s.up {
		server.SetFaults(f)
	}
}

// count says how many queries to upstream nameservers the row is about.
func (s *stage) count(upstream int) { s.counted, s.upstream = true, upstream }

// note keeps a number that the row is about.
func (s *stage) note(name string, value float64) { s.facts = append(s.facts, Fact{name, value}) }
