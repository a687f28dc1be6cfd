package alike

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// aspect is a property in which answers may differ.
type aspect string

const (
	noAnswer   aspect = "answered"
	rcode      aspect = "rcode"
	aa         aspect = "AA"
	tc         aspect = "TC"
	rd         aspect = "RD"
	ra         aspect = "RA"
	z          aspect = "Z"
	ad         aspect = "AD"
	cd         aspect = "CD"
	question   aspect = "question"
	edns       aspect = "EDNS"
	options    aspect = "EDNS options"
	answers    aspect = "answer"
	order      aspect = "order of the answer"
	authority  aspect = "authority"
	additional aspect = "additional"
	ttls       aspect = "TTL"
	letters    aspect = "letters' case"
	size       aspect = "size"
)

// difference is one difference between two answers to a query.
type difference struct {
	aspect aspect
	peer   int
	query  query
	our    answer
	their  answer

	elapsed time.Duration // since the first query
}

func (d difference) String() string {
	return fmt.Sprintf("%s differs from %s's: %s\nours %s\ntheirs %s", d.aspect, names[d.peer], d.query, describe(d.our), describe(d.their))
}

func describe(a answer) string {
	switch {
	case a.wire == nil:
		return "nothing"
	case a.msg == nil:
		return fmt.Sprintf("unreadable: %x", a.wire)
	}
	text := a.msg.String()
	const enough = 3000
	return fmt.Sprintf("(%d octets) %s", len(a.wire), text[:min(len(text), enough)])
}

// compare returns the differences between two answers. If the rcode or the completeness differs,
// the records must differ too and are not reported.
func compare(q query, peer int, our, their answer) (all []difference) {
	differs := func(of aspect) {
		all = append(all, difference{aspect: of, peer: peer, query: q, our: our, their: their})
	}
	if our.msg == nil || their.msg == nil {
		if our.msg != nil || their.msg != nil {
			differs(noAnswer)
		}
		return all
	}
	a, b := our.msg, their.msg
	for _, flag := range []struct {
		of   aspect
		a, b bool
	}{
		{aa, a.Authoritative, b.Authoritative},
		{rd, a.RecursionDesired, b.RecursionDesired},
		{ra, a.RecursionAvailable, b.RecursionAvailable},
		{z, a.Zero, b.Zero},
		{ad, a.AuthenticatedData, b.AuthenticatedData},
		{cd, a.CheckingDisabled, b.CheckingDisabled},
	} {
		if flag.a != flag.b {
			differs(flag.of)
		}
	}
	if !slices.Equal(a.Question, b.Question) {
		differs(question)
	}
	if offer(a) != offer(b) {
		differs(edns)
	}
	if !slices.Equal(optionsOf(a), optionsOf(b)) {
		differs(options)
	}
	if a.Rcode != b.Rcode {
		differs(rcode)
		return all
	}
	if a.Truncated != b.Truncated {
		differs(tc)
		return all
	}
	return append(all, compareRecords(q, peer, our, their)...)
}

func compareRecords(q query, peer int, our, their answer) (all []difference) {
	differs := func(of aspect) {
		all = append(all, difference{aspect: of, peer: peer, query: q, our: our, their: their})
	}
	same, sameLetters, sameTimes := true, true, true
	for _, section := range []struct {
		of   aspect
		a, b []dns.RR
	}{{answers, our.msg.Answer, their.msg.Answer}, {authority, our.msg.Ns, their.msg.Ns}, {additional, our.msg.Extra, their.msg.Extra}} {
		a, b := lines(section.a), lines(section.b)
		if section.of == answers && !slices.EqualFunc(a, b, line.isAlike) && slices.EqualFunc(sorted(a), sorted(b), line.isAlike) {
			differs(order)
		}
		a, b = sorted(a), sorted(b)
		if !slices.EqualFunc(a, b, line.isAlike) {
			differs(section.of)
			same = false
			continue
		}
		sameLetters = sameLetters && slices.EqualFunc(a, b, func(a, b line) bool { return a.text == b.text })
		sameTimes = sameTimes && slices.EqualFunc(a, b, func(a, b line) bool { return isNear(a.ttl, b.ttl) })
	}
	if !sameLetters {
		differs(letters)
	}
	if !sameTimes {
		differs(ttls)
	}
	if same && offer(our.msg) == offer(their.msg) && len(optionsOf(our.msg)) == len(optionsOf(their.msg)) && len(our.wire) > len(their.wire) {
		differs(size)
	}
	return all
}

// isNear allows a difference of one second, because clocks are read at different moments.
func isNear(a, b uint32) bool { return a <= b+1 && b <= a+1 }

// offer describes the OPT record: whether it exists, its version, and its DO bit. The offered size
// is each server's own choice.
func offer(m *dns.Msg) string {
	o := m.IsEdns0()
	if o == nil {
		return "none"
	}
	return fmt.Sprint(o.Version(), o.Do())
}

func optionsOf(m *dns.Msg) (all []string) {
	if o := m.IsEdns0(); o != nil {
		for _, option := range o.Option {
			all = append(all, fmt.Sprint(option.Option(), " ", option))
		}
	}
	return all
}

// line is a record without its TTL.
type line struct {
	text, lower string
	ttl         uint32
}

func (l line) isAlike(other line) bool { return l.lower == other.lower }

func lines(section []dns.RR) (all []line) {
	for _, rr := range section {
		h := rr.Header()
		if h.Rrtype == dns.TypeOPT {
			continue
		}
		data := strings.TrimPrefix(rr.String(), h.String())
		if unknown, ok := rr.(*dns.RFC3597); ok { // its String has a different header
			data = unknown.Rdata
		}
		text := fmt.Sprint(h.Name, " ", dns.Class(h.Class), " ", dns.Type(h.Rrtype), " ", data)
		all = append(all, line{text, strings.ToLower(text), h.Ttl})
	}
	return all
}

func sorted(all []line) []line {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b line) int { return strings.Compare(a.lower, b.lower) })
	return all
}
