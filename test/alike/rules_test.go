package alike

import (
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// rule explains differences from one of the other servers.
type rule struct {
	name    string // of the difference; docs/appendix/alike.md shows it, and the next three
	peer    int
	ours    string
	theirs  string
	aspects []aspect // that it is about
	holds   func(d difference) bool

	sometimes bool // whether a run may lack such a difference
}

func (r rule) explains(d difference) bool {
	return r.peer == d.peer && slices.Contains(r.aspects, d.aspect) && r.holds(d)
}

// row is the rule in the table of docs/appendix/alike.md.
func (r rule) row() string {
	return "| " + r.name + " | " + r.ours + " | " + names[r.peer] + ": " + r.theirs + " |"
}

// isMinimal reports whether the response to ANY is only the record of RFC 8482 section 4.2.
func isMinimal(m *dns.Msg) bool {
	if len(m.Answer) != 1 || m.Rcode != dns.RcodeSuccess {
		return false
	}
	info, ok := m.Answer[0].(*dns.HINFO)
	return ok && info.Cpu == "RFC8482"
}

// rules explain why answers differ. The first matching rule counts.
var rules = []rule{
	{
		"ANY", dnsmasq, "one HINFO record, without an upstream query (RFC 8482 section 4.2)", "passes on the upstream's whole answer",
		[]aspect{rcode, aa, tc, ad, options, answers, order, authority, additional, ttls, letters, size},
		func(d difference) bool { return d.query.msg.Question[0].Qtype == dns.TypeANY && isMinimal(d.our.msg) }, false,
	},
	{
		"ANY", unbound, "one HINFO record, without an upstream query (RFC 8482 section 4.2)", "answers with the RRsets in its cache, if any, else queries for all",
		[]aspect{rcode, aa, tc, ad, options, answers, order, authority, additional, ttls, letters, size},
		func(d difference) bool { return d.query.msg.Question[0].Qtype == dns.TypeANY && isMinimal(d.our.msg) }, false,
	},
	{
		"uncompressed names of an upstream", unbound, "unchanged in a response that is cached as it came", "rewrites every response with all names compressed",
		[]aspect{size},
		func(d difference) bool { return !d.our.msg.Truncated }, true,
	},
	{
		"a query with TC set", unbound, "the bit has no meaning in a query and is ignored", "answers FORMERR",
		[]aspect{rcode, ra, aa, z, ad, edns, options},
		func(d difference) bool { return d.query.msg.Truncated && d.their.msg.Rcode == dns.RcodeFormatError }, false,
	},
	{
		"DNS Cookies", dnsmasq, "a client that sends a cookie gets a server cookie (RFC 7873 section 5.2), which takes 28 octets", "does not know cookies",
		[]aspect{options, tc, answers, authority, additional},
		isOfCookie, false,
	},
	{
		"DNS Cookies", unbound, "a client that sends a cookie gets a server cookie (RFC 7873 section 5.2), which takes 28 octets", "does so with `answer-cookie: yes`, which is off by default",
		[]aspect{options, tc, answers, authority, additional},
		isOfCookie, false,
	},
	{
		"errors", unbound, "none of the bits and options of the query, and RA", "returns the query's AA, AD and Z and its OPT record, without RA",
		[]aspect{ra, aa, z, ad, edns, options},
		func(d difference) bool { return isRefusal(d.their.msg) }, false,
	},
	{
		"errors over TCP", unbound, "answered as over UDP", "sometimes closes the connection instead",
		[]aspect{noAnswer},
		func(d difference) bool {
			return d.query.tcp && (d.query.msg.Truncated || isOddQuestion(d) || isOddVersion(d)) && d.our.msg != nil
		}, true,
	},
	{
		"types and classes that must not be queried", unbound, "NOTIMP for TSIG, TKEY, MAILA, MAILB and classes other than IN and CH; FORMERR for OPT, with the reason (RFC 9824 section 9)", "answers FORMERR or REFUSED, or forwards",
		[]aspect{rcode, options},
		isOddQuestion, false,
	},
	{
		"types and classes that must not be queried", dnsmasq, "REFUSED for zone transfers, FORMERR for OPT, NOTIMP for the others; none is forwarded", "forwards most, and has another RCODE for the others",
		[]aspect{rcode, options, answers, authority, additional},
		isOddQuestion, false,
	},
	{
		"an unknown EDNS version", dnsmasq, "BADVERS (RFC 6891 section 6.1.3) at once", "answers from its cache, or forwards",
		[]aspect{rcode},
		func(d difference) bool { return isOddVersion(d) && d.our.msg.Rcode == dns.RcodeBadVers }, false,
	},
	{
		"a query without RD", unbound, "cache misses are forwarded, as dnsmasq does, because some clients forget the bit", "answers with the root's nameservers",
		[]aspect{rcode, tc, answers, authority, additional},
		func(d difference) bool {
			return !d.query.msg.RecursionDesired && (len(d.their.msg.Ns) == 0 || d.their.msg.Ns[0].Header().Rrtype == dns.TypeNS) && len(d.their.msg.Answer) <= len(d.our.msg.Answer)
		}, false,
	},
	{
		"the RD bit", unbound, "as in the query (RFC 1035 section 4.1.1)", "sets it in answers from its cache",
		[]aspect{rd},
		func(d difference) bool { return d.our.msg.RecursionDesired == d.query.msg.RecursionDesired }, false,
	},
	{
		"the AA bit", dnsmasq, "never set for answers of other nameservers (RFC 1034 section 4.3.1)", "passes the bit on",
		[]aspect{aa},
		func(d difference) bool { return d.their.msg.Authoritative }, false,
	},
	{
		"the Z bit", dnsmasq, "0 in responses (RFC 1035 section 4.1.1)", "passes the bit on",
		[]aspect{z},
		func(d difference) bool { return d.query.msg.Zero && !d.our.msg.Zero }, false,
	},
	{
		"the largest response over UDP", unbound, "1232 octets, whatever the client offers (RFC 9715), as with dnsmasq", "4096 octets",
		[]aspect{tc},
		func(d difference) bool { return d.our.msg.Truncated && len(d.their.wire) > d.query.limit() }, false,
	},
	{
		"the order of addresses", dnsmasq, "the upstream's, also from the cache", "another order",
		[]aspect{order},
		func(d difference) bool { return !hasOwnAliases(d) && d.query.msg.Question[0].Qtype != dns.TypeCNAME }, false,
	},
	{
		"the case of names", dnsmasq, "names with the question's suffix are compressed to pointers to it, in its letter case (RFC 1035 section 4.1.4), as with unbound", "another case",
		[]aspect{letters},
		func(d difference) bool { return onlyNamesDiffer(d) }, false,
	},
	{
		"the case below a DNAME", unbound, "the upstream's alias, in the upstream's case", "generates its own alias",
		[]aspect{letters},
		func(d difference) bool { return isMoved(d) && onlyNamesDiffer(d) }, false,
	},
	{
		"the TTL below a DNAME", unbound, "the upstream's alias has the TTL of the DNAME (RFC 6672 section 3.1)", "generates an alias with TTL 0",
		[]aspect{ttls},
		isMoved, false,
	},
	{
		"DNAME from the cache", dnsmasq, "the whole answer is cached", "caches aliases and addresses",
		[]aspect{answers},
		func(d difference) bool { return isMoved(d) && len(d.their.msg.Answer) < len(d.our.msg.Answer) }, false,
	},
	{
		"the TTL of negative answers", dnsmasq, "at most the SOA record's minimum (RFC 2308 section 3), as with unbound", "passes on the upstream's",
		[]aspect{ttls},
		func(d difference) bool { return soaTTL(d.their.msg) > soaTTL(d.our.msg) && soaTTL(d.our.msg) > 0 }, false,
	},
	{
		"long TTLs", dnsmasq, "at most a day, as with unbound (RFC 8767 section 4: at most a week)", "no such limit",
		[]aspect{ttls},
		func(d difference) bool { return highest(d.their.msg) > 86400 && highest(d.our.msg) <= 86400 }, false,
	},
	{
		"the SOA record of a negative answer", dnsmasq, "also from the cache (RFC 2308 section 6)", "missing from the cache",
		[]aspect{authority},
		func(d difference) bool { return len(d.their.msg.Ns) == 0 && soaTTL(d.our.msg) > 0 }, false,
	},
	{
		"an alias loop", unbound, "the upstream's answer, as with dnsmasq", "answers SERVFAIL",
		[]aspect{rcode},
		func(d difference) bool {
			name := strings.ToLower(d.query.msg.Question[0].Name)
			return (name == "loop1.example." || name == "self.example.") && d.their.msg.Rcode == dns.RcodeServerFailure
		}, false,
	},
	{
		"the AD bit", unbound, "the upstream's, for clients that set AD or DO (RFC 6840 section 5.8)", "would validate itself",
		[]aspect{ad},
		func(d difference) bool { return d.our.msg.AuthenticatedData && wantsAD(d) }, false,
	},
	{
		"records beside the answer", unbound, "passed on", "removes unrequested records, and adds known ones",
		[]aspect{answers, authority, additional},
		func(d difference) bool { return strings.EqualFold(d.query.msg.Question[0].Name, "told.example.") }, false,
	},
	{
		"the AD bit", dnsmasq, "the upstream's, for clients that set AD or DO (RFC 6840 section 5.8)", "not passed on",
		[]aspect{ad},
		func(d difference) bool { return d.our.msg.AuthenticatedData && wantsAD(d) }, false,
	},
	{
		"the OPT record", dnsmasq, "a client that sends one gets one (RFC 6891 section 6.1.1)", "missing from some truncated answers and errors",
		[]aspect{edns},
		func(d difference) bool {
			return offer(d.their.msg) == "none" && (d.their.msg.Truncated || isRefusal(d.their.msg))
		}, false,
	},
	{
		"one upstream query for several clients", dnsmasq, "each client gets its own question and flags, and what its own size allows", "all waiting clients get the question, flags, TC and BADVERS of one",
		[]aspect{question, rd, cd, ad, edns, tc, rcode},
		func(d difference) bool {
			switch d.aspect {
			case tc:
				return len(d.their.wire) > d.query.limit() || d.their.msg.Truncated
			case rcode:
				return d.their.msg.Rcode == dns.RcodeBadVers && !isOddVersion(d)
			}
			return strings.EqualFold(d.their.msg.Question[0].Name, d.our.msg.Question[0].Name)
		}, false,
	},
	{
		"truncated answers", dnsmasq, "as many records as fit. Clients repeat the query over TCP in any case (RFC 2181 section 9)", "sends none, or passes on what came",
		[]aspect{answers, authority},
		func(d difference) bool { return d.our.msg.Truncated && d.their.msg.Truncated }, false,
	},
	{
		"truncated answers", unbound, "as many records as fit. Clients repeat the query over TCP in any case (RFC 2181 section 9)", "sends whole RRsets or none",
		[]aspect{answers, authority},
		func(d difference) bool { return d.our.msg.Truncated && d.their.msg.Truncated }, false,
	},
	{
		"aliases that were just learned", dnsmasq, "all of them, as the upstream sends them", "omits some, or takes the last one for the zone",
		[]aspect{answers, authority, rcode},
		func(d difference) bool { return hasOwnAliases(d) }, false,
	},
	{
		"NXDOMAIN behind an alias", dnsmasq, "the RCODE of the last name (RFC 6604 section 3), as with unbound", "NOERROR while the alias is cached",
		[]aspect{rcode},
		func(d difference) bool {
			return len(d.our.msg.Answer) > 0 && d.our.msg.Rcode == dns.RcodeNameError && d.their.msg.Rcode == dns.RcodeSuccess
		}, false,
	},
	{
		"the age of an answer", dnsmasq, "each type, with and without DO and CD, is cached separately, from its first answer on", "caches names with their aliases and addresses, and forwards most other types each time",
		[]aspect{ttls},
		isOfAge, false,
	},
	{
		"the age of an answer", unbound, "each type, with and without DO and CD, is cached separately, from its first answer on", "has one age for an RRset in all answers",
		[]aspect{ttls},
		isOfAge, false,
	},
}

// isRefusal reports whether a response says nothing about the name.
func isRefusal(m *dns.Msg) bool {
	return m.Rcode == dns.RcodeFormatError || m.Rcode == dns.RcodeRefused || m.Rcode == dns.RcodeNotImplemented || m.Rcode == dns.RcodeBadVers
}

// isOfCookie reports whether our cookie causes a difference: the option itself, or data that no
// longer fits because of it.
func isOfCookie(d difference) bool {
	return hasCookie(d.our.msg) && !hasCookie(d.their.msg) && (d.aspect == options || d.our.msg.Truncated)
}

// hasCookie reports whether a response has a COOKIE option.
func hasCookie(m *dns.Msg) bool {
	o := m.IsEdns0()
	return o != nil && slices.ContainsFunc(o.Option, func(o dns.EDNS0) bool { return o.Option() == dns.EDNS0COOKIE })
}

func isOddQuestion(d difference) bool {
	q := d.query.msg.Question[0]
	return slices.Contains(refusedTypes, q.Qtype) || q.Qclass != dns.ClassINET
}

func isOddVersion(d difference) bool {
	o := d.query.msg.IsEdns0()
	return o != nil && o.Version() != 0
}

func isMoved(d difference) bool {
	return strings.HasSuffix(strings.ToLower(d.query.msg.Question[0].Name), ".moved.example.")
}

func wantsAD(d difference) bool {
	o := d.query.msg.IsEdns0()
	return d.query.msg.AuthenticatedData || o != nil && o.Do()
}

// soaTTL returns the TTL of the SOA record in the authority section, or 0 if there is none.
func soaTTL(m *dns.Msg) uint32 {
	for _, rr := range m.Ns {
		if rr.Header().Rrtype == dns.TypeSOA {
			return rr.Header().Ttl
		}
	}
	return 0
}

func highest(m *dns.Msg) (ttl uint32) {
	for _, rr := range m.Answer {
		ttl = max(ttl, rr.Header().Ttl)
	}
	return ttl
}

// isOfAge reports whether no TTL differs by more than the time since the first query, with one
// second of tolerance for the clocks. See laws for the age of our own answers.
func isOfAge(d difference) bool {
	most := uint32(d.elapsed/time.Second) + 2
	for _, section := range [][2][]dns.RR{{d.our.msg.Answer, d.their.msg.Answer}, {d.our.msg.Ns, d.their.msg.Ns}, {d.our.msg.Extra, d.their.msg.Extra}} {
		a, b := sorted(lines(section[0])), sorted(lines(section[1]))
		for i := range min(len(a), len(b)) {
			if a[i].isAlike(b[i]) && (a[i].ttl > b[i].ttl+most || b[i].ttl > a[i].ttl+most) {
				return false
			}
		}
	}
	return true
}

// hasOwnAliases reports whether the other server's aliases are not a prefix of ours.
func hasOwnAliases(d difference) bool {
	ours, theirs := aliases(d.our.msg), aliases(d.their.msg)
	return len(theirs) > len(ours) || !slices.Equal(theirs, ours[:len(theirs)])
}

func aliases(m *dns.Msg) (all []string) {
	for _, rr := range m.Answer {
		if cname, ok := rr.(*dns.CNAME); ok {
			all = append(all, strings.ToLower(cname.Hdr.Name+" "+cname.Target))
		}
	}
	return all
}

// onlyNamesDiffer reports whether letters differ only in names, which are compared without case
// (RFC 4343), and not in texts.
func onlyNamesDiffer(d difference) bool {
	texts := func(m *dns.Msg) (all []string) {
		for _, rr := range m.Answer {
			if txt, ok := rr.(*dns.TXT); ok {
				all = append(all, txt.Txt...)
			}
		}
		slices.Sort(all)
		return all
	}
	return slices.Equal(texts(d.our.msg), texts(d.their.msg))
}
