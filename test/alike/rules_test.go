package alike

import (
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// rule explains differences from one of the other servers.
type rule struct {
	name    string // as in docs/appendix/alike.md, like the next two
	peer    int
	reason  string
	aspects []aspect // aspects that it covers
	holds   func(d difference) bool

	sometimes bool // whether a run may lack such a difference
}

func (r rule) explains(d difference) bool {
	return r.peer == d.peer && slices.Contains(r.aspects, d.aspect) && r.holds(d)
}

// row formats the rule as a row of the table in docs/appendix/alike.md.
func (r rule) row() string { return "| " + r.name + " | " + names[r.peer] + " | " + r.reason + " |" }

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
		"ANY", dnsmasq, "a HINFO record, and no upstream is asked (RFC 8482 section 4.2); dnsmasq passes the upstream's whole answer on",
		[]aspect{rcode, aa, tc, ad, options, answers, order, authority, additional, ttls, letters, size},
		func(d difference) bool { return d.query.msg.Question[0].Qtype == dns.TypeANY && isMinimal(d.our.msg) }, false,
	},
	{
		"ANY", unbound, "likewise; unbound makes it of the RRsets that it remembers, if any, or asks for all",
		[]aspect{rcode, aa, tc, ad, options, answers, order, authority, additional, ttls, letters, size},
		func(d difference) bool { return d.query.msg.Question[0].Qtype == dns.TypeANY && isMinimal(d.our.msg) }, false,
	},
	{
		"names that an upstream has written out", unbound, "stay as they are in a response that is remembered as it came; unbound writes every response anew, with all names compressed",
		[]aspect{size},
		func(d difference) bool { return !d.our.msg.Truncated }, true,
	},
	{
		"a query with TC set", unbound, "unbound says FORMERR; the bit means nothing in a query, and is not looked at here",
		[]aspect{rcode, ra, aa, z, ad, edns, options},
		func(d difference) bool { return d.query.msg.Truncated && d.their.msg.Rcode == dns.RcodeFormatError }, false,
	},
	{
		"DNS Cookies", dnsmasq, "who sends one gets ours (RFC 7873 section 5.2), which takes 28 octets; dnsmasq knows none",
		[]aspect{options, tc, answers, authority, additional},
		isOfCookie, false,
	},
	{
		"DNS Cookies", unbound, "likewise, as with unbound's `answer-cookie: yes`, which is off by default",
		[]aspect{options, tc, answers, authority, additional},
		isOfCookie, false,
	},
	{
		"errors", unbound, "unbound sends back the query's AA, AD and Z, and its OPT record, without RA",
		[]aspect{ra, aa, z, ad, edns, options},
		func(d difference) bool { return isRefusal(d.their.msg) }, false,
	},
	{
		"errors over TCP", unbound, "are told as over UDP; unbound now and then closes the connection instead",
		[]aspect{noAnswer},
		func(d difference) bool {
			return d.query.tcp && (d.query.msg.Truncated || isOddQuestion(d) || isOddVersion(d)) && d.our.msg != nil
		}, true,
	},
	{
		"types and classes that nobody may ask for", unbound, "NOTIMP for TSIG, TKEY, MAILA, MAILB and other classes than IN and CH, where unbound says FORMERR, REFUSED or asks; FORMERR for OPT says why (RFC 9824 section 9)",
		[]aspect{rcode, options},
		isOddQuestion, false,
	},
	{
		"types and classes that nobody may ask for", dnsmasq, "REFUSED for zone transfers, FORMERR for OPT, NOTIMP for the others, none of which goes upstream; dnsmasq sends most, and has an RCODE of its own for the others",
		[]aspect{rcode, options, answers, authority, additional},
		isOddQuestion, false,
	},
	{
		"a version of EDNS that does not exist", dnsmasq, "BADVERS (RFC 6891 section 6.1.3) at once; dnsmasq answers from memory, or asks",
		[]aspect{rcode},
		func(d difference) bool { return isOddVersion(d) && d.our.msg.Rcode == dns.RcodeBadVers }, false,
	},
	{
		"a query without RD", unbound, "what is not remembered is asked for, as dnsmasq does: some clients forget the bit. unbound tells of the root's nameservers",
		[]aspect{rcode, tc, answers, authority, additional},
		func(d difference) bool {
			return !d.query.msg.RecursionDesired && (len(d.their.msg.Ns) == 0 || d.their.msg.Ns[0].Header().Rrtype == dns.TypeNS) && len(d.their.msg.Answer) <= len(d.our.msg.Answer)
		}, false,
	},
	{
		"the RD bit", unbound, "the response has that of the query (RFC 1035 section 4.1.1), where unbound's from memory has it set",
		[]aspect{rd},
		func(d difference) bool { return d.our.msg.RecursionDesired == d.query.msg.RecursionDesired }, false,
	},
	{
		"the AA bit", dnsmasq, "no answer of another nameserver is authoritative here (RFC 1034 section 4.3.1); dnsmasq passes the bit on",
		[]aspect{aa},
		func(d difference) bool { return d.their.msg.Authoritative }, false,
	},
	{
		"the Z bit", dnsmasq, "the bit must be 0 in responses (RFC 1035 section 4.1.1); dnsmasq passes it on",
		[]aspect{z},
		func(d difference) bool { return d.query.msg.Zero && !d.our.msg.Zero }, false,
	},
	{
		"the largest response over UDP", unbound, "1232 octets, whatever the client offers (RFC 9715), as dnsmasq has it; unbound's is 4096",
		[]aspect{tc},
		func(d difference) bool { return d.our.msg.Truncated && len(d.their.wire) > d.query.limit() }, false,
	},
	{
		"the order of addresses", dnsmasq, "that of the upstream, from memory too",
		[]aspect{order},
		func(d difference) bool { return !hasOwnAliases(d) && d.query.msg.Question[0].Qtype != dns.TypeCNAME }, false,
	},
	{
		"the letters' case of names", dnsmasq, "names that end as the question does are pointers to it, in its letters' case (RFC 1035 section 4.1.4), as unbound has it",
		[]aspect{letters},
		func(d difference) bool { return onlyNamesDiffer(d) }, false,
	},
	{
		"the letters' case below a DNAME", unbound, "the alias that the upstream made is in the upstream's letters' case; unbound makes its own",
		[]aspect{letters},
		func(d difference) bool { return isMoved(d) && onlyNamesDiffer(d) }, false,
	},
	{
		"the TTL below a DNAME", unbound, "the alias that the upstream made has the TTL of the DNAME (RFC 6672 section 3.1); unbound's own has 0",
		[]aspect{ttls},
		isMoved, false,
	},
	{
		"DNAME from memory", dnsmasq, "the whole answer is remembered; dnsmasq remembers aliases and addresses",
		[]aspect{answers},
		func(d difference) bool { return isMoved(d) && len(d.their.msg.Answer) < len(d.our.msg.Answer) }, false,
	},
	{
		"the TTL of negative answers", dnsmasq, "not above the SOA record's minimum (RFC 2308 section 3), as unbound has it; dnsmasq passes on what came",
		[]aspect{ttls},
		func(d difference) bool { return soaTTL(d.their.msg) > soaTTL(d.our.msg) && soaTTL(d.our.msg) > 0 }, false,
	},
	{
		"long TTLs", dnsmasq, "at most a day, as unbound has it (RFC 8767 section 4: at most a week)",
		[]aspect{ttls},
		func(d difference) bool { return highest(d.their.msg) > 86400 && highest(d.our.msg) <= 86400 }, false,
	},
	{
		"the SOA record of a negative answer", dnsmasq, "from memory too (RFC 2308 section 6); dnsmasq has it no more",
		[]aspect{authority},
		func(d difference) bool { return len(d.their.msg.Ns) == 0 && soaTTL(d.our.msg) > 0 }, false,
	},
	{
		"aliases in a circle", unbound, "what the upstream says, as dnsmasq has it; unbound says SERVFAIL",
		[]aspect{rcode},
		func(d difference) bool {
			name := strings.ToLower(d.query.msg.Question[0].Name)
			return (name == "loop1.example." || name == "self.example.") && d.their.msg.Rcode == dns.RcodeServerFailure
		}, false,
	},
	{
		"the AD bit", unbound, "of the upstream, to who asks with AD or DO (RFC 6840 section 5.8); unbound would validate itself",
		[]aspect{ad},
		func(d difference) bool { return d.our.msg.AuthenticatedData && wantsAD(d) }, false,
	},
	{
		"what an upstream says beside the answer", unbound, "is passed on; unbound takes out what was not asked for, and adds what it knows",
		[]aspect{answers, authority, additional},
		func(d difference) bool { return strings.EqualFold(d.query.msg.Question[0].Name, "told.example.") }, false,
	},
	{
		"the AD bit", dnsmasq, "the upstream's, for who asks with AD or DO (RFC 6840 section 5.8), as docs/reference/dnsmasq.md has it",
		[]aspect{ad},
		func(d difference) bool { return d.our.msg.AuthenticatedData && wantsAD(d) }, false,
	},
	{
		"the OPT record", dnsmasq, "who sends one gets one (RFC 6891 section 6.1.1); dnsmasq leaves it out of some truncated answers and errors",
		[]aspect{edns},
		func(d difference) bool {
			return offer(d.their.msg) == "none" && (d.their.msg.Truncated || isRefusal(d.their.msg))
		}, false,
	},
	{
		"one query for several clients", dnsmasq, "each gets its own question and flags, and what its own size allows; dnsmasq gives all who ask meanwhile the question, the flags, TC and BADVERS of one",
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
		"truncated answers", dnsmasq, "as many records as fit; dnsmasq sends none, or passes on what came. Clients ask over TCP in any case (RFC 2181 section 9)",
		[]aspect{answers, authority},
		func(d difference) bool { return d.our.msg.Truncated && d.their.msg.Truncated }, false,
	},
	{
		"truncated answers", unbound, "as many records as fit; unbound sends whole RRsets or none. Clients ask over TCP in any case (RFC 2181 section 9)",
		[]aspect{answers, authority},
		func(d difference) bool { return d.our.msg.Truncated && d.their.msg.Truncated }, false,
	},
	{
		"aliases that were just learned", dnsmasq, "all of them, as the upstream says; dnsmasq leaves out some, or makes of the last one the zone",
		[]aspect{answers, authority, rcode},
		func(d difference) bool { return hasOwnAliases(d) }, false,
	},
	{
		"NXDOMAIN behind an alias", dnsmasq, "the RCODE is the last name's (RFC 6604 section 3), as unbound has it; in dnsmasq it is NOERROR while it remembers the alias",
		[]aspect{rcode},
		func(d difference) bool {
			return len(d.our.msg.Answer) > 0 && d.our.msg.Rcode == dns.RcodeNameError && d.their.msg.Rcode == dns.RcodeSuccess
		}, false,
	},
	{
		"the age of an answer", dnsmasq, "each type, with and without DO and CD, is remembered by itself, from its first answer on; dnsmasq remembers names with their aliases and addresses, and asks for most other types each time",
		[]aspect{ttls},
		isOfAge, false,
	},
	{
		"the age of an answer", unbound, "each type, with and without DO and CD, is remembered by itself, from its first answer on; unbound has one age for an RRset in whatever answer it stands",
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
