package view

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/policy"
)

// queryTimeout is the timeout of dnsserver for a client's query.
const queryTimeout = 5 * time.Second

// Query answers an admin's question in the same way as a client's, and reports the source of the
// answer.
func (v *View) Query(ctx context.Context, question control.Question) (control.Answer, error) {
	m, err := question.Message()
	if err != nil {
		return control.Answer{}, control.MistakeError{Why: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	asker, err := v.askerOf(m, question)
	if err != nil {
		return control.Answer{}, err
	}
	inquiry := &dnsserver.Inquiry{SkipCache: question.Fresh}
	if question.Trace {
		inquiry.Trace = dnsserver.NewTrace()
	}
	var walked bool
	asPod := dnsserver.HandlerFunc(func(ctx context.Context, q *dnsserver.Query) (m *dns.Msg, err error) {
		q.Inquiry = inquiry
		m, walked, err = v.resolver.AsPodOf(ctx, asker.namespace, q)
		return m, err
	})
	if asker.isRefusedAlways() {
		asPod = func(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
			q.Origin = dnsserver.OriginSelf
			return asker.refusal.Msg, nil
		}
	}
	began := time.Now()
	response, q, err := dnsserver.Direct(ctx, asPod, m, asker.addr, asker.local)
	if err != nil {
		return control.Answer{}, control.MistakeError{Why: err.Error()}
	}
	isRefused := asker.isRefused(q)
	if isRefused {
		response, q.Origin = asker.refusal.Msg, dnsserver.OriginSelf
	}
	answer := control.NewAnswer(m.Question[0], response)
	answer.Took = time.Since(began)
	v.tellOfQuery(m, response, q, answer.Took)
	domain := q.Domain()
	if walked {
		domain = aliasTarget(response, domain)
	}
	answer.By = v.answeredBy(q, domain, answer)
	answer.By.Walked = walked
	answer.Client = asker.shown(isRefused)
	answer.Trace = stepsOf(inquiry.Trace)
	return answer, nil
}

// tellOfQuery reports an admin's question to watchers, as the server does with a client's.
func (v *View) tellOfQuery(asked, response *dns.Msg, q *dnsserver.Query, took time.Duration) {
	if !v.Hub.IsWatched() {
		return
	}
	query, err := asked.Pack()
	if err != nil {
		return // cannot happen: Direct packed the same message
	}
	var sent []byte
	if response != nil {
		if sent, err = response.Pack(); err != nil {
			return // a client would not have received this response
		}
	}
	v.Hub.Query(q.Seen(query, sent, took))
}

// stepsOf returns the steps to an answer, or nil if they were not recorded.
func stepsOf(t *dnsserver.Trace) (steps []control.TraceStep) {
	if t == nil {
		return nil
	}
	noted, more := t.Steps()
	for _, s := range noted {
		steps = append(steps, control.TraceStep{At: s.At, What: s.What})
	}
	if more > 0 {
		steps = append(steps, control.TraceStep{At: noted[len(noted)-1].At, What: strconv.Itoa(more) + " more steps"})
	}
	return steps
}

// aliasTarget returns the target of the first record if it is an alias, or else otherwise.
func aliasTarget(response *dns.Msg, otherwise dnsname.Name) dnsname.Name {
	if response != nil && len(response.Answer) > 0 {
		if alias, ok := response.Answer[0].(*dns.CNAME); ok {
			return dnsserver.Domain(alias.Target)
		}
	}
	return otherwise
}

// answeredBy returns the source of the answer to q, which is about domain.
func (v *View) answeredBy(q *dnsserver.Query, domain dnsname.Name, a control.Answer) control.By {
	s := v.policy()
	by := control.By{Who: string(q.Origin), Cached: q.Cached, Age: q.Age}
	isStale := func(e control.ExtendedError) bool {
		return e.Code == dns.ExtendedErrorCodeStaleAnswer || e.Code == dns.ExtendedErrorCodeStaleNXDOMAINAnswer
	}
	by.Stale = slices.ContainsFunc(a.Errors, isStale)
	apex := s.ApexAbove(domain)
	switch {
	case q.Origin == dnsserver.OriginCluster:
		by.Domain, by.Source, by.Target = apex, s.ClusterSource, q.AnsweredBy.String()
		return by
	case q.Origin == dnsserver.OriginLocalData:
		by.Source = SaidLocally(s, q.Name)
		return by
	case q.Origin != "":
		return by
	}
	if !q.AnsweredBy.IsZero() {
		by.Server = q.AnsweredBy.String()
		v.addHealth(&by)
	}
	route, ok := v.resolver.Forward().Match(domain)
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

// SaidLocally returns the file and line of the local data about a name, or "" if there is none.
func SaidLocally(s *policy.Policy, name dnsname.Name) string {
	place, ok := s.Known.Said.Where(name)
	if !ok {
		return ""
	}
	return place.String()
}

// addHealth adds the health of the server that answered.
func (v *View) addHealth(by *control.By) {
	servers := serversOf(v.resolver.Forward().Status())
	i := slices.IndexFunc(servers, func(s forward.ServerStatus) bool { return s.Server.String() == by.Server })
	if i < 0 {
		return
	}
	by.State, by.RTT = string(servers[i].State), servers[i].RTT
	if !by.Cached {
		by.Transport = string(servers[i].Transport)
	}
}
