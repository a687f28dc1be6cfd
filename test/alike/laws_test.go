package alike

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// laws are rules that hold for every answer of node-dns, independent of the other servers. They
// keep the first answer to each question. Later ones must be equal except for their age.
type laws map[string]first

type first struct {
	asked, arrived time.Time
	lines          []line
}

// check returns what is wrong with an answer, or "".
func (l laws) check(q query, a answer) string {
	m, asked := a.msg, q.msg
	if m == nil {
		return "no answer"
	}
	o, opt := asked.IsEdns0(), m.IsEdns0()
	switch {
	case !m.Response || m.Opcode != dns.OpcodeQuery || m.RecursionDesired != asked.RecursionDesired || m.CheckingDisabled != asked.CheckingDisabled,
		!m.RecursionAvailable, m.Zero, m.Authoritative && asked.Question[0].Qclass == dns.ClassINET:
		return "wrong flags"
	case !slices.Equal(m.Question, asked.Question):
		return "another question"
	case (o == nil) != (opt == nil):
		return "an OPT record where none was asked for, or none where one was"
	case opt != nil && (opt.Version() != 0 || opt.Do() != o.Do() || opt.UDPSize() != 1232):
		return "a wrong OPT record"
	case len(a.wire) > q.limit():
		return fmt.Sprintf("more than %d octets", q.limit())
	case m.Truncated && q.tcp:
		return "truncated over TCP"
	case isRefused(q) && m.Rcode != refusal(q):
		return "not refused as " + dns.RcodeToString[refusal(q)]
	}
	return l.compare(q, a)
}

// isRefused reports whether a query is never sent upstream. Names of class CH are for the daemon
// itself.
func isRefused(q query) bool {
	question, o := q.msg.Question[0], q.msg.IsEdns0()
	return o != nil && o.Version() != 0 || slices.Contains(refusedTypes, question.Qtype) || question.Qclass != dns.ClassINET && question.Qclass != dns.ClassCHAOS
}

// refusal returns the RCODE for a refused query.
func refusal(q query) int {
	question, o := q.msg.Question[0], q.msg.IsEdns0()
	switch {
	case o != nil && o.Version() != 0:
		return dns.RcodeBadVers
	case question.Qclass != dns.ClassINET && question.Qclass != dns.ClassCHAOS:
		return dns.RcodeNotImplemented
	case question.Qtype == dns.TypeAXFR, question.Qtype == dns.TypeIXFR:
		return dns.RcodeRefused
	case question.Qtype == dns.TypeOPT:
		return dns.RcodeFormatError
	}
	return dns.RcodeNotImplemented
}

// compare compares an answer with the first answer to the same question.
func (l laws) compare(q query, a answer) string {
	question := q.msg.Question[0]
	if !q.msg.RecursionDesired || a.msg.Truncated || isRefusal(a.msg) || a.msg.Rcode == dns.RcodeServerFailure {
		return ""
	}
	do := q.msg.IsEdns0() != nil && q.msg.IsEdns0().Do()
	key := fmt.Sprint(strings.ToLower(question.Name), question.Qtype, question.Qclass, do, q.msg.CheckingDisabled)
	all := slices.Concat(lines(a.msg.Answer), lines(a.msg.Ns), lines(a.msg.Extra))
	before, known := l[key]
	if !known {
		l[key] = first{a.asked, a.arrived, all}
		return ""
	}
	if len(all) != len(before.lines) && len(a.msg.Extra) == 0 && !mayBeCut(q) {
		return "another number of records than before"
	}
	least, most := int64(a.asked.Sub(before.arrived)/time.Second)-1, int64(a.arrived.Sub(before.asked)/time.Second)+1
	for i := range min(len(all), len(before.lines)) {
		now, then := all[i], before.lines[i]
		age := int64(then.ttl) - int64(now.ttl)
		switch {
		case !now.isAlike(then):
			return fmt.Sprintf("%s, where before was %s", now.text, then.text)
		case (isForgotten(question.Name) || isMinimal(a.msg)) && now.ttl == then.ttl:
		case age < least || age > most:
			return fmt.Sprintf("%s has a TTL of %d, after one of %d between %d and %d s before", now.text, now.ttl, then.ttl, least, most)
		}
	}
	return ""
}

// mayBeCut reports whether an answer has, or had, additional records. They are omitted first,
// without TC.
func mayBeCut(q query) bool {
	return strings.EqualFold(q.msg.Question[0].Name, "told.example.")
}

// isForgotten reports whether an answer must not be cached: its TTL is 0, or it is negative without
// a duration (RFC 2308 section 5), as for alias loops.
func isForgotten(qname string) bool {
	return slices.ContainsFunc([]string{"never.", "bare.", "loop1.", "self."}, func(part string) bool { return strings.Contains(strings.ToLower(qname), part) })
}
