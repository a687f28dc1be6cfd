package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/records"
	"github.com/node-dns/node-dns/internal/policy"
)

// queryTimeout is what dnsserver gives a client's query.
const queryTimeout = 5 * time.Second

// query answers an admin's question by what answers a client's, and says who that was.
func (d *Daemon) query(ctx context.Context, question control.Question) (control.Answer, error) {
	m, err := messageOf(question)
	if err != nil {
		return control.Answer{}, control.MistakeError{Why: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var walked bool
	asPod := dnsserver.HandlerFunc(func(ctx context.Context, q *dnsserver.Query) (m *dns.Msg, err error) {
		m, walked, err = d.resolver.AsPodOf(ctx, question.Namespace, q)
		return m, err
	})
	loopback := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	began := time.Now()
	response, q, err := dnsserver.Direct(ctx, asPod, m, loopback, netip.AddrPortFrom(d.policy().NodeIP, 0))
	if err != nil {
		return control.Answer{}, control.MistakeError{Why: err.Error()}
	}
	answer := newAnswer(m.Question[0], response)
	answer.Took = time.Since(began)
	d.tellOfQuery(m, response, q, answer.Took)
	answer.By = d.answeredBy(q, answer)
	answer.By.Walked = walked
	return answer, nil
}

// tellOfQuery tells those who watch of an admin's question, as the server does of a client's.
func (d *Daemon) tellOfQuery(asked, response *dns.Msg, q *dnsserver.Query, took time.Duration) {
	if !d.hub.IsWatched() {
		return
	}
	query, err := asked.Pack()
	if err != nil {
		return // Direct has packed it
	}
	var sent []byte
	if response != nil {
		if sent, err = response.Pack(); err != nil {
			return // a client would have got no such response
		}
	}
	d.hub.Query(q.Seen(query, sent, took))
}

// messageOf is the query that a client sends for a question.
func messageOf(question control.Question) (*dns.Msg, error) {
	if _, ok := dns.IsDomainName(question.Name); !ok || question.Name == "" {
		return nil, fmt.Errorf("%q: expected a name", question.Name)
	}
	qtype, err := numberOf(question.Type, "type", dns.TypeA, dns.StringToType)
	if err != nil {
		return nil, err
	}
	class, err := numberOf(question.Class, "class", dns.ClassINET, dns.StringToClass)
	if err != nil {
		return nil, err
	}
	m := new(dns.Msg).SetQuestion(dns.Fqdn(question.Name), qtype)
	m.Question[0].Qclass = class
	m.AuthenticatedData = true          // a client is told who has validated what: RFC 6840 section 5.7
	return m.SetEdns0(1232, false), nil // for the reasons of failures
}

// numberOf reads a type or class as dig does: by its name, or TYPE123 (RFC 3597 section 5).
func numberOf(text, what string, byDefault uint16, names map[string]uint16) (uint16, error) {
	text = strings.ToUpper(text)
	if text == "" {
		return byDefault, nil
	}
	if n, ok := names[text]; ok && n != dns.TypeReserved && n != 0 {
		return n, nil
	}
	var n uint16
	var rest string
	if count, _ := fmt.Sscanf(text, strings.ToUpper(what)+"%d%s", &n, &rest); count == 1 {
		return n, nil
	}
	return 0, fmt.Errorf("%q: expected a %s", text, what)
}

// newAnswer is what the admin sees of a response; nil: none was sent.
func newAnswer(question dns.Question, response *dns.Msg) control.Answer {
	a := control.Answer{
		APIVersion: control.APIVersion, Kind: "Answer",
		Name: question.Name, Type: dnswire.TypeText(question.Qtype), Class: dns.Class(question.Qclass).String(),
		Flags: []string{}, Answer: []control.Record{}, Authority: []control.Record{}, Errors: []control.ExtendedError{},
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
				a.Errors = append(a.Errors, control.ExtendedError{Code: e.InfoCode, Name: dns.ExtendedErrorCodeToString[e.InfoCode], Text: e.ExtraText})
			}
		}
	}
	return a
}

// flagsOf are the flags that dig shows.
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

// recordTexts are the parts of the text of each, which has escapes for what does not print.
func recordTexts(rrs []dns.RR) []control.Record {
	all := []control.Record{}
	for _, rr := range rrs {
		parts := strings.SplitN(records.Readable(rr).String(), "\t", 5)
		if len(parts) < 5 {
			parts = append(parts, make([]string, 5-len(parts))...)
		}
		all = append(all, control.Record{Name: parts[0], TTL: rr.Header().Ttl, Class: parts[2], Type: parts[3], Data: parts[4]})
	}
	return all
}

// answeredBy says who answered q.
func (d *Daemon) answeredBy(q *dnsserver.Query, a control.Answer) control.By {
	s := d.policy()
	by := control.By{Who: string(q.Origin), Cached: q.Cached, Age: q.Age}
	isStale := func(e control.ExtendedError) bool {
		return e.Code == dns.ExtendedErrorCodeStaleAnswer || e.Code == dns.ExtendedErrorCodeStaleNXDOMAINAnswer
	}
	by.Stale = slices.ContainsFunc(a.Errors, isStale)
	apex := s.ApexAbove(q.Domain())
	switch {
	case q.Origin == dnsserver.OriginCluster:
		by.Domain, by.Source, by.Target = apex, s.ClusterSource, q.AnsweredBy.String()
		return by
	case q.Origin == dnsserver.OriginLocalData:
		by.Source = saidLocally(s, q.Name)
		return by
	case q.Origin != "":
		return by
	}
	if !q.AnsweredBy.IsZero() {
		by.Server = q.AnsweredBy.String()
		d.addHealth(&by)
	}
	route, ok := d.resolver.Forward().Match(q.Domain())
	if ok && route.Source != policy.Guard {
		by.Domain, by.Source = routeWord(route.Domain, route.Plain), route.Source
	}
	switch {
	case by.Server != "" && apex != "" && slices.Contains(s.ClusterDNS, q.AnsweredBy):
		by.Who = string(dnsserver.OriginCluster)
	case by.Server != "":
		by.Who = "upstream"
	case ok && route.Local:
		by.Who = string(dnsserver.OriginRule)
	default:
		by.Who = "nobody"
	}
	return by
}

// saidLocally is the file and line that local data about a name is from; "": none says so.
func saidLocally(s *policy.Policy, name dnsname.Name) string {
	place, ok := s.Known.Said.Where(name)
	if !ok {
		return ""
	}
	return place.String()
}

// addHealth adds what is known of the server that answered.
func (d *Daemon) addHealth(by *control.By) {
	for _, route := range d.resolver.Forward().Status() {
		i := slices.IndexFunc(route.Servers, func(s forward.ServerStatus) bool { return s.Server.String() == by.Server })
		if i >= 0 {
			by.State, by.RTT = string(route.Servers[i].State), route.Servers[i].RTT
			if !by.Cached {
				by.Transport = string(route.Servers[i].Transport)
			}
			return
		}
	}
}
