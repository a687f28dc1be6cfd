package dnstest

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

const (
	maxSeen  = 100_000 // maximum number of queries for Received; older ones are counted but dropped
	maxNames = 2 << 20 // maximum number of names and types for QueriesFor; later ones are counted only by Queries
)

// A Query is a query that a Server has received.
type Query struct {
	Msg     *dns.Msg // read-only
	Client  netip.AddrPort
	Network string // "udp", "tcp" or "tls"
}

type key struct {
	name  string
	qtype uint16
}

// counts are the numbers of queries by name and type.
type counts struct {
	all   int
	byKey map[key]int
}

func (s *Server) noteLocked(q Query) {
	if len(s.seen) == maxSeen {
		s.seen = slices.Delete(s.seen, 0, maxSeen/2)
	}
	s.seen = append(s.seen, q)
	if s.counts.byKey == nil {
		s.counts.byKey = map[key]int{}
	}
	question := q.Msg.Question[0]
	asked := key{strings.ToLower(question.Name), question.Qtype}
	s.counts.all++
	if s.counts.byKey[asked] > 0 || len(s.counts.byKey) < maxNames {
		s.counts.byKey[asked]++
	}
}

// Queries returns the number of queries so far, including those without a response.
func (s *Server) Queries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.all
}

// QueriesFor returns the number of queries for name and qtype; dns.TypeNone matches all types.
func (s *Server) QueriesFor(name string, qtype uint16) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	name = canonicalName(name)
	if qtype != dns.TypeNone {
		return s.counts.byKey[key{name, qtype}]
	}
	sum := 0
	for k, n := range s.counts.byKey {
		if k.name == name {
			sum += n
		}
	}
	return sum
}

// Received returns the queries in order of arrival, at least the last 50,000.
func (s *Server) Received() []Query {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}
