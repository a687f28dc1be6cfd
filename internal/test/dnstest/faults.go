package dnstest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// What forged responses say, so that a client which takes one is found out: ForgedA for an A query, ForgedAAAA for
// AAAA, and a CNAME to ForgedName for every other type.
const (
	ForgedA    = "6.6.6.6"
	ForgedAAAA = "2001:db8:6666::6"
	ForgedName = "forged.invalid."
)

// Faults are what is wrong with the responses. The zero value behaves. Those that are set hold together: Truncate with
// CloseTCP is a server whose answers cannot be had.
//
// WrongID, WrongQuestion, WrongType, NoQuestion and WrongSource are forgeries: they carry the answer of ForgedA.
type Faults struct {
	Drop  bool          // silence; over TCP the connection stays open
	Loss  float64       // the share of queries that meet silence, 0 to 1; the same ones in each run
	Delay time.Duration // before every response

	Rcode int // an empty response with this RCODE; 0: what the records say. Above 15 (RFC 6891) only to queries with EDNS

	WrongID       bool // each copy another one
	WrongQuestion bool // another name in question and answer
	WrongType     bool // another type in question and answer
	NoQuestion    bool // QDCOUNT 0
	WrongSource   bool // from another port of the same address; over TCP there is no such thing, and the response is right

	Truncate bool // over UDP TC and empty sections; over TCP whole
	Garbage  bool // the header of a response to this query, then what no parser takes
	Empty    bool // a message of no bytes
	CutUDP   bool // the second half of the datagram is missing, without TC

	// MaxUDP is the largest response in octets that passes over UDP, as on a path that loses
	// fragments or filters by size; 0: all pass.
	MaxUDP int

	FormErrOnEDNS bool // FORMERR without OPT to a query with EDNS (RFC 6891 section 7). With NoQuestion: a bare header
	NotImpOnEDNS  bool // the same with NOTIMP
	BadVersOnEDNS bool // the same with BADVERS, and OPT
	DropOnEDNS    bool // silence to a query with EDNS

	// Raw makes the messages that are sent in the place of the bad response, octet by octet; with ThenOK the right one
	// follows; with Truncate they are for TCP alone. nil: what the other faults make is sent.
	Raw func(query []byte) [][]byte

	CloseTCP bool // the connection is closed when the query has been read
	ResetTCP bool // half of the response, then RST

	NoSOA           bool   // a negative response without SOA, which must not be cached (RFC 2308 section 5)
	ExtraRR         string // records, in zone-file syntax, added to the answer section
	ExtraAuthority  string // to the authority section
	ExtraAdditional string // to the additional section

	Copies int  // how often the bad response is sent; 0: once
	ThenOK bool // and then, at once, the right one
	First  int  // only the first so many queries meet the faults; 0: all
}

// order is Faults with what was made of them and how many queries they have met.
type order struct {
	Faults
	answer, authority, additional []dns.RR
	met                           int
	losses                        *rand.Rand
}

// SetFaults orders faults for all names but those of SetFaultsFor, from the next query on. It panics on records that
// cannot be read.
func (s *Server) SetFaults(f Faults) {
	made := newOrder(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = made
}

// SetFaultsFor orders faults for one name, whatever holds for the others; the zero Faults let that name behave.
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

// orderLocked returns the faults that the next query for name meets, and counts it.
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
