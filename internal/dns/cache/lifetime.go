package cache

import (
	"encoding/binary"
	"math"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// limits decide how long a response may be stored.
type limits struct {
	positive, negative time.Duration
	least, bare        time.Duration // MinTTL and NegativeTTL
	byName             func(dnsname.Name) time.Duration
}

func newLimits(c Config) limits {
	l := limits{positive: c.MaxTTL, negative: c.MaxNegativeTTL, least: c.MinTTL, bare: c.NegativeTTL, byName: c.Limit}
	if l.positive <= 0 {
		l.positive = defaultMaxTTL
	}
	if l.negative == 0 {
		l.negative = defaultMaxNegativeTTL
	}
	return l
}

// remember returns how long m may be served for q's question, in whole seconds; 0 means not at all.
// It is the minimum of the TTLs and the limits. It reduces the TTLs of a response that may be
// stored to the limit, in place.
func (l limits) remember(q *dnsserver.Query, m *dns.Msg) time.Duration {
	seconds, soa := ttl(m, q.Msg.Question[0])
	isBare := soa == nil && l.isBare(m, q.Msg.Question[0])
	if isBare {
		seconds = smallest(m)
	}
	t := l.ttlBounds(l.limit(q.Name), said{seconds: seconds, isNegative: soa != nil, isBare: isBare})
	if t.least > 0 {
		eachTTL(m, func(ttl uint32) uint32 { return max(ttl, t.least) })
	}
	if t.lifetime <= 0 {
		eachTTL(m, t.capped)
		return 0
	}
	if soa != nil {
		soa.Hdr.Ttl = min(soa.Hdr.Ttl, soa.Minttl) // RFC 2308 section 3
	}
	eachTTL(m, func(ttl uint32) uint32 { return min(ttl, t.highest) })
	return t.lifetime
}

// rememberWire is remember for an unparsed response. own is Config.Limit for its qname.
func (l limits) rememberWire(own time.Duration, r dnswire.Response) time.Duration {
	s := said{seconds: r.TTL}
	switch isPositive := r.Message[3]&maskRcode == dns.RcodeSuccess && r.Answers; {
	case isPositive:
	case r.SOA > 0:
		s.isNegative, s.seconds = true, min(r.TTL, r.Minimum)
	case l.bare > 0:
		s.isBare = true
	default:
		s.seconds = 0
	}
	t := l.ttlBounds(own, s)
	if t.least > 0 {
		eachWireTTL(r, func(ttl uint32) uint32 { return max(ttl, t.least) })
	}
	if t.lifetime <= 0 {
		eachWireTTL(r, t.capped)
		return 0
	}
	if s.isNegative {
		ttl := r.Message[r.SOA:]
		binary.BigEndian.PutUint32(ttl, min(binary.BigEndian.Uint32(ttl), r.Minimum))
	}
	eachWireTTL(r, func(ttl uint32) uint32 { return min(ttl, t.highest) })
	return t.lifetime
}

// said is the lifetime information in a response.
type said struct {
	seconds            uint32 // 0 if it must not be stored
	isNegative, isBare bool
}

// ttlBounds are the lifetime of a response and the limits of its TTLs in seconds. A least of 0
// means no minimum.
type ttlBounds struct {
	lifetime       time.Duration
	least, highest uint32
}

// capped returns the TTL for a record of a response that is not cached, such as a referral: the
// client may cache it. If highest is 0, caching is off and the TTL stays.
func (t ttlBounds) capped(ttl uint32) uint32 {
	if t.highest == 0 {
		return ttl
	}
	return min(ttl, t.highest)
}

func (l limits) ttlBounds(own time.Duration, s said) (t ttlBounds) {
	limit := l.positive
	switch {
	case s.isNegative:
		limit = l.negative
	case s.isBare:
		limit, s.seconds = l.negative, min(s.seconds, uint32(l.bare/time.Second)) // an alias has a TTL
	case s.seconds > 0 && l.least > 0:
		t.least = uint32(l.least / time.Second)
		s.seconds = max(s.seconds, t.least)
	}
	if own != 0 {
		limit = min(limit, own)
	}
	limit = limit.Truncate(time.Second)
	t.lifetime = min(time.Duration(s.seconds)*time.Second, limit)
	t.highest = uint32(max(0, min(limit/time.Second, math.MaxInt32)))
	return t
}

// limit returns Config.Limit for name.
func (l limits) limit(name dnsname.Name) time.Duration {
	if l.byName == nil {
		return 0
	}
	return l.byName(name)
}

// isBare reports whether m is NXDOMAIN or NODATA without the SOA record that states its lifetime.
func (l limits) isBare(m *dns.Msg, question dns.Question) bool {
	return l.bare > 0 && !m.Truncated && (m.Rcode == dns.RcodeNameError || m.Rcode == dns.RcodeSuccess && !answers(m.Answer, question.Qtype)) &&
		zoneOf(m, question.Name) == nil
}

// ttl returns the lifetime of m as an answer to question in seconds, according to m itself. 0 means
// that m must not be stored. soa is the SOA record of a negative answer, and nil otherwise.
//
// Only NOERROR and NXDOMAIN say something about the name. SERVFAIL and similar codes are about
// servers. RFC 9520 requires resolvers to cache those for 1 s to 5 min; the upstream resolver that
// found the failure does so.
func ttl(m *dns.Msg, question dns.Question) (seconds uint32, soa *dns.SOA) {
	if m.Truncated || m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError {
		return 0, nil
	}
	seconds = smallest(m)
	if m.Rcode == dns.RcodeSuccess && answers(m.Answer, question.Qtype) {
		return seconds, nil
	}
	soa = zoneOf(m, question.Name)
	if soa == nil {
		return 0, nil // RFC 2308 section 5: its lifetime is unknown
	}
	return min(seconds, known(soa.Minttl)), soa
}

// smallest returns the smallest TTL in m, in seconds.
func smallest(m *dns.Msg) uint32 {
	seconds := uint32(math.MaxInt32)
	for _, section := range [...][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if rr.Header().Rrtype != dns.TypeOPT {
				seconds = min(seconds, known(rr.Header().Ttl))
			}
		}
	}
	return seconds
}

// known returns ttl according to RFC 2181 section 8: with the highest bit set it means 0.
func known(ttl uint32) uint32 {
	if ttl > math.MaxInt32 {
		return 0
	}
	return ttl
}

// answers reports whether the answer section has the requested type. An alias whose target does not
// have it is NODATA (RFC 2308 section 2.2).
func answers(section []dns.RR, qtype uint16) bool {
	for _, rr := range section {
		if t := rr.Header().Rrtype; t == qtype || qtype == dns.TypeANY {
			return true
		}
	}
	return false
}

// zoneOf returns the SOA record of a negative response: of the zone of qname, or of the target of
// its alias. It ignores the SOA of an unrelated zone.
func zoneOf(m *dns.Msg, qname string) *dns.SOA {
	for _, rr := range m.Ns {
		soa, ok := rr.(*dns.SOA)
		if !ok {
			continue
		}
		if isWithin(qname, soa.Hdr.Name) {
			return soa
		}
		for _, alias := range m.Answer {
			if cname, ok := alias.(*dns.CNAME); ok && isWithin(cname.Target, soa.Hdr.Name) {
				return soa
			}
		}
	}
	return nil
}

// isWithin looks at each byte of name at most once: a response may have thousands of aliases to
// short names, and a zone with a long name.
func isWithin(name, zone string) bool {
	at := len(name) - len(zone)
	return zone == "." || at >= 0 && strings.EqualFold(name[at:], zone) && beginsLabel(name, at)
}

// eachTTL changes every TTL in m, except for the OPT record, whose field is not a TTL (RFC 6891
// section 6.1.3).
func eachTTL(m *dns.Msg, change func(uint32) uint32) {
	for _, section := range [...][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if h := rr.Header(); h.Rrtype != dns.TypeOPT {
				h.Ttl = change(h.Ttl)
			}
		}
	}
}

func eachWireTTL(r dnswire.Response, change func(uint32) uint32) {
	for at := r.End; at < len(r.Message); {
		ttlAt, end := dnswire.Record(r.Message, at)
		ttl := r.Message[ttlAt:]
		binary.BigEndian.PutUint32(ttl, change(binary.BigEndian.Uint32(ttl)))
		at = end
	}
}
