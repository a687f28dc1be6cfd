package dnstest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Contents of forged responses, which reveal a client that accepts one: ForgedA for an A query,
// ForgedAAAA for AAAA, and a CNAME to ForgedName for every other type.
const (
	ForgedA    = "6.6.6.6"
	ForgedAAAA = "2001:db8:6666::6"
	ForgedName = "forged.invalid."
)

// Faults are the faults of responses. The zero value has none. Several may be combined: with
// Truncate and CloseTCP, no client gets the answer.
//
// WrongID, WrongQuestion, WrongType, NoQuestion and WrongSource are forgeries: they carry the
// answer ForgedA.
type Faults struct {
	Drop  bool          // no response; over TCP the connection stays open
	Loss  float64       // fraction of queries without a response, 0 to 1; the same queries in each run
	Delay time.Duration // before every response

	// An empty response with this RCODE; 0 means the response from the records. Values above 15
	// (RFC 6891) apply only to queries with EDNS.
	Rcode int

	WrongID       bool // different for each copy
	WrongQuestion bool // another name in question and answer
	WrongType     bool // another type in question and answer
	NoQuestion    bool // QDCOUNT 0
	WrongSource   bool // from another port of the same address; not possible over TCP, where the response is right

	Truncate bool // TC and empty sections over UDP, everything over TCP
	Garbage  bool // the header of a response to this query, followed by invalid data
	Empty    bool // a message of zero bytes
	CutUDP   bool // only the first half of the datagram, without TC

	// MaxUDP is the size in bytes of the largest response that passes over UDP, as on a path that
	// loses fragments or filters by size. 0 means no limit.
	MaxUDP int

	FormErrOnEDNS bool // FORMERR without OPT to a query with EDNS (RFC 6891 section 7); with NoQuestion, a bare header
	NotImpOnEDNS  bool // the same with NOTIMP
	BadVersOnEDNS bool // the same with BADVERS, and OPT
	DropOnEDNS    bool // no response to a query with EDNS

	// Raw returns the messages to send instead of the bad response. With ThenOK the right one
	// follows. With Truncate they are only for TCP. nil disables it.
	Raw func(query []byte) [][]byte

	CloseTCP bool // close the connection after reading the query
	ResetTCP bool // half of the response, then RST

	NoSOA           bool   // a negative response without SOA, which must not be cached (RFC 2308 section 5)
	ExtraRR         string // zone-file records added to the answer section
	ExtraAuthority  string // the same for the authority section
	ExtraAdditional string // the same for the additional section

	Copies int  // how often the bad response is sent; 0 means once
	ThenOK bool // send the right one immediately afterwards
	First  int  // number of queries, from the first, that get the faults; 0 means all
}

// order is a Faults in prepared form, with the number of queries that it was applied to.
type order struct {
	Faults
	answer, authority, additional []dns.RR
	met                           int
	losses                        *rand.Rand
}

// SetFaults sets the faults for all names except those of SetFaultsFor, starting with the next
// query. It panics on invalid records.
func (s *Server) SetFaults(f Faults) {
	made := newOrder(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = made
}

// SetFaultsFor sets the faults of one name, which replace those of SetFaults. The zero Faults mean
// no faults for the name.
func (s *Server) SetFaultsFor(name string, f Faults) {
	made := newOrder(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]*order{}
	}
	s.byName[canonicalName(name)] = &made
}

func newOrder(f Faults) order {
	made := order{Faults: f, losses: rand.New(rand.NewPCG(1, 2))}
	for _, section := range []struct {
		text string
		into *[]dns.RR
	}{{f.ExtraRR, &made.answer}, {f.ExtraAuthority, &made.authority}, {f.ExtraAdditional, &made.additional}} {
		rrs, err := parseRRs(section.text)
		if err != nil {
			panic(fmt.Errorf("ordering faults: %w", err))
		}
		*section.into = rrs
	}
	return made
}

// orderLocked returns the faults for the next query for name, and counts it.
func (s *Server) orderLocked(name string) order {
	holds := &s.faults
	if own := s.byName[strings.ToLower(name)]; own != nil {
		holds = own
	}
	holds.met++
	if holds.First > 0 && holds.met > holds.First {
		return order{}
	}
	made := *holds
	if made.Loss > 0 && holds.losses.Float64() < made.Loss {
		made.Drop = true
	}
	return made
}
