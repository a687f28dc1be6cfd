package control

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/node-dns/node-dns/internal/admin/searchlist"
)

// Lookup is the result of looking up a name with a search list.
type Lookup struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"` // as given
	Found      bool   `json:"found"`
	Search     Search `json:"search"`
	Steps      []Step `json:"steps"` // names in the order of the queries
}

// Step is one name of a search, with an answer for each type.
type Step struct {
	Name    string   `json:"name"`
	Answers []Answer `json:"answers"`
}

// LookupQuestion holds the parameters of FetchLookup.
type LookupQuestion struct {
	Name   string   // a dot at the end disables the search list
	Types  []string // A and AAAA if empty, as programs ask
	How    Question // template for each query, without Name and Type; a class other than IN disables the search list
	Search SearchQuestion
	Direct *Direct // queries the server instead of the daemon; the search list is then used only with Search.Namespace
}

// asksDaemon reports whether the lookup needs a daemon.
func (q LookupQuestion) asksDaemon() bool { return q.Direct == nil || q.Search.Namespace != "" }

// types returns the types to query.
func (q LookupQuestion) types() []string {
	if len(q.Types) > 0 {
		return q.Types
	}
	return []string{"A", "AAAA"}
}

// FetchLookup looks up a name as glibc does, through the daemon that listens on path.
func FetchLookup(ctx context.Context, path string, question LookupQuestion) (Lookup, error) {
	l := Lookup{APIVersion: APIVersion, Kind: "Lookup", Name: question.Name, Steps: []Step{}, Search: noSearch()}
	if question.asksDaemon() {
		var err error
		if l.Search, err = FetchSearch(ctx, path, question.Search); err != nil {
			return l, err
		}
	}
	s := stepper{ctx: ctx, path: path, question: question}
	if class := question.How.Class; class != "" && class != "IN" {
		s.ask(wholeName(question.Name))
	} else {
		l.Search.conf().Walk(searchlist.GLibc, question.Name, s.ask)
	}
	l.Steps = append(l.Steps, s.steps...)
	_, l.Found = l.found()
	return l, s.err
}

func wholeName(name string) string { return strings.TrimSuffix(name, ".") + "." }

// stepper queries the names of a search list, each once.
type stepper struct {
	ctx      context.Context
	path     string
	question LookupQuestion
	steps    []Step
	err      error // first error; ends the search
}

func (s *stepper) ask(name string) []searchlist.Result {
	if i := slices.IndexFunc(s.steps, func(step Step) bool { return step.Name == name }); i >= 0 {
		return s.steps[i].results()
	}
	if s.err != nil {
		return []searchlist.Result{searchlist.Refused}
	}
	step := Step{Name: name, Answers: make([]Answer, len(s.question.types()))}
	group, ctx := errgroup.WithContext(s.ctx)
	for i, qtype := range s.question.types() {
		group.Go(func() (err error) {
			question := s.question.How
			question.Name, question.Type = name, qtype
			step.Answers[i], err = s.query(ctx, question)
			return err
		})
	}
	if s.err = group.Wait(); s.err != nil {
		return []searchlist.Result{searchlist.Refused}
	}
	s.steps = append(s.steps, step)
	return step.results()
}

func (s *stepper) query(ctx context.Context, question Question) (Answer, error) {
	if s.question.Direct != nil {
		return s.question.Direct.Query(ctx, question)
	}
	return Query(ctx, s.path, question)
}

func (s Step) results() []searchlist.Result {
	var all []searchlist.Result
	for _, answer := range s.Answers {
		all = append(all, answer.Result())
	}
	return all
}

// Result returns the answer as a C library interprets it.
func (a Answer) Result() searchlist.Result {
	switch {
	case a.Rcode == "NXDOMAIN":
		return searchlist.Absent
	case a.Rcode == "NOERROR" && len(a.Answer) > 0:
		return searchlist.Found
	case a.Rcode == "NOERROR":
		return searchlist.NoData
	case a.Rcode == "SERVFAIL", a.Rcode == "":
		return searchlist.Failed
	}
	return searchlist.Refused
}

// found returns the step that the search ends with: the one with an answer, else one whose name
// exists or whose query failed, else the last one.
func (l Lookup) found() (step Step, ok bool) {
	for _, result := range []searchlist.Result{searchlist.Found, searchlist.NoData, searchlist.Failed, searchlist.Refused} {
		for _, step := range l.Steps {
			if slices.Contains(step.results(), result) {
				return step, result == searchlist.Found
			}
		}
	}
	if len(l.Steps) == 0 {
		return Step{}, false
	}
	return l.Steps[len(l.Steps)-1], false
}

// Addrs returns the addresses of the name: nil if it has none.
func (l Lookup) Addrs() (addrs []netip.Addr) {
	step, _ := l.found()
	for _, r := range step.records() {
		if addr, err := netip.ParseAddr(r.Data); err == nil && (r.Type == "A" || r.Type == "AAAA") {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// best returns the most informative answer of a step.
func (s Step) best() Answer {
	for _, result := range []searchlist.Result{searchlist.Found, searchlist.Failed, searchlist.Refused, searchlist.NoData} {
		for _, answer := range s.Answers {
			if answer.Result() == result {
				return answer
			}
		}
	}
	return s.Answers[0]
}
