package control

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/records"
)

// Message returns the DNS query for the question, or an error that describes what is wrong with the
// question.
func (q Question) Message() (*dns.Msg, error) {
	if _, ok := dns.IsDomainName(q.Name); !ok || q.Name == "" {
		return nil, fmt.Errorf("%q: expected a name", q.Name)
	}
	qtype, class := dns.TypeA, uint16(dns.ClassINET)
	if q.Type != "" {
		var ok bool
		if qtype, ok = dnswire.ParseType(q.Type); !ok {
			return nil, fmt.Errorf("unknown record type %q", q.Type)
		}
	}
	if q.Class != "" {
		var ok bool
		if class, ok = dns.StringToClass[strings.ToUpper(q.Class)]; !ok || class == dns.ClassNONE {
			return nil, fmt.Errorf("unknown class %q", q.Class)
		}
	}
	m := new(dns.Msg).SetQuestion(dns.Fqdn(q.Name), qtype)
	m.Question[0].Qclass = class
	m.AuthenticatedData = true // ask the server to report DNSSEC validation: RFC 6840 section 5.7
	m.CheckingDisabled = q.CD
	return m.SetEdns0(exchange.DefaultUDPSize, q.DNSSEC), nil // EDNS(0), so that the server can send extended errors
}

// NewAnswer converts a response for display. The response may be nil if none was sent. The caller
// sets By and Took.
func NewAnswer(question dns.Question, response *dns.Msg) Answer {
	a := Answer{
		APIVersion: APIVersion, Kind: "Answer",
		Name: question.Name, Type: dnswire.TypeText(question.Qtype), Class: dns.Class(question.Qclass).String(),
		Flags: []string{}, Answer: []Record{}, Authority: []Record{}, Errors: []ExtendedError{},
	}
	if response == nil {
		return a
	}
	a.Rcode = dns.RcodeToString[response.Rcode]
	if a.Rcode == "" {
		a.Rcode = fmt.Sprintf("RCODE%d", response.Rcode)
	}
	a.Flags = flagsOf(response.MsgHdr)
	a.Answer, a.Authority = recordTexts(response.Answer), recordTexts(response.Ns)
	if opt := response.IsEdns0(); opt != nil {
		for _, option := range opt.Option {
			if e, ok := option.(*dns.EDNS0_EDE); ok {
				a.Errors = append(a.Errors, ExtendedError{Code: e.InfoCode, Name: dns.ExtendedErrorCodeToString[e.InfoCode], Text: e.ExtraText})
			}
		}
	}
	return a
}

// flagsOf returns the header flags in dig's notation.
func flagsOf(h dns.MsgHdr) []string {
	flags := []string{}
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"qr", h.Response},
		{"aa", h.Authoritative},
		{"tc", h.Truncated},
		{"rd", h.RecursionDesired},
		{"ra", h.RecursionAvailable},
		{"ad", h.AuthenticatedData},
		{"cd", h.CheckingDisabled},
	} {
		if flag.set {
			flags = append(flags, flag.name)
		}
	}
	return flags
}

// recordTexts splits the text form of each record into its fields. Unprintable characters are
// escaped.
func recordTexts(rrs []dns.RR) []Record {
	all := []Record{}
	for _, rr := range rrs {
		parts := strings.SplitN(records.Readable(rr).String(), "\t", 5)
		if len(parts) < 5 {
			parts = append(parts, make([]string, 5-len(parts))...)
		}
		all = append(all, Record{Name: parts[0], TTL: rr.Header().Ttl, Class: parts[2], Type: parts[3], Data: parts[4]})
	}
	return all
}
