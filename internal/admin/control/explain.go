package control

import (
	"context"
	"errors"
	"slices"

	"github.com/node-dns/node-dns/internal/admin/searchlist"
)

// Explanation describes the queries that C libraries send when they look up a name.
type Explanation struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Name       string      `json:"name"` // as given
	Found      bool        `json:"found"`
	Search     Search      `json:"search"`
	Steps      []Step      `json:"steps"`     // one per name that any of the libraries queries
	Libraries  []Behaviour `json:"libraries"` // glibc first
	Whole      string      `json:"wholeName"` // the name that was found, or else the given name, with a dot at the end
	// Dig is the only name that dig queries.
	Dig string `json:"dig"`
	// Walked is the answer to the first name if the node walks the pod's search list, and nil if it
	// does not.
	Walked   *Step    `json:"walked,omitempty"`
	Problems []string `json:"problems"`
}

// Behaviour describes one C library.
type Behaviour struct {
	Library string   `json:"library"` // glibc or musl
	Names   []string `json:"names"`   // names it asks for, in order
	Queries int      `json:"queries"` // number of A and AAAA queries for them
	AtLeast bool     `json:"atLeast"` // whether it keeps sending more while a nameserver fails
	Found   bool     `json:"found"`
	// Whole is the number of queries for the found name (or else the given name) with a dot at the
	// end, which skips the search list.
	Whole int `json:"wholeNameQueries"`
	// Unwalked is the number of queries without the node's search list walk. It equals Queries if
	// the node does not walk.
	Unwalked int `json:"queriesWithoutAutopath"`
}

// FetchExplanation asks the daemon that listens on path about all names that a C library may query.
func FetchExplanation(ctx context.Context, path, name string, question SearchQuestion) (Explanation, error) {
	e := Explanation{APIVersion: APIVersion, Kind: "Explanation", Name: name, Dig: wholeName(name), Steps: []Step{}, Libraries: []Behaviour{}, Problems: []string{}}
	var err error
	if e.Search, err = FetchSearch(ctx, path, question); err != nil {
		return e, err
	}
	s := stepper{ctx: ctx, path: path, question: LookupQuestion{Name: name}}
	for _, lib := range []searchlist.Library{searchlist.GLibc, searchlist.Musl} {
		e.Search.conf().Walk(lib, name, s.ask)
	}
	e.Steps = append(e.Steps, s.steps...)
	if s.err == nil && len(s.steps) > 0 {
		e.Walked, s.err = fetchWalked(ctx, path, e)
	}
	if s.err != nil {
		return e, s.err
	}
	for _, lib := range []searchlist.Library{searchlist.GLibc, searchlist.Musl} {
		e.Libraries = append(e.Libraries, e.behaviour(lib))
	}
	e.Found, e.Whole = e.Libraries[0].Found, e.Dig
	if step, ok := (Lookup{Steps: e.Steps}).found(); ok {
		e.Whole = step.Name
	}
	if !e.Found {
		e.Problems = append(e.Problems, name+" was not found")
	}
	for _, fault := range e.Search.Faults {
		e.Problems = append(e.Problems, fault.What)
	}
	return e, nil
}

// fetchWalked returns the first step as the pod sees it when the node walks its search list, or nil
// if the node does not walk.
func fetchWalked(ctx context.Context, path string, e Explanation) (*Step, error) {
	if !e.Search.Autopath.On {
		return nil, nil
	}
	step := Step{Name: e.Steps[0].Name}
	var errs []error
	for _, qtype := range (LookupQuestion{}).types() {
		answer, err := Query(ctx, path, Question{Name: step.Name, Type: qtype, Namespace: e.Search.Namespace})
		step.Answers, errs = append(step.Answers, answer), append(errs, err)
	}
	if !slices.ContainsFunc(step.Answers, func(a Answer) bool { return a.By.Walked }) {
		return nil, errors.Join(errs...)
	}
	return &step, errors.Join(errs...)
}

// behaviour predicts a library's queries from the answers.
func (e Explanation) behaviour(lib searchlist.Library) Behaviour {
	conf := e.Search.conf()
	plain := func(name string) []searchlist.Result { return e.step(name).results() }
	walked := func(name string) []searchlist.Result {
		if e.Walked != nil && e.Walked.Name == name {
			return e.Walked.results()
		}
		return plain(name)
	}
	b := Behaviour{Library: string(lib)}
	b.Names = conf.Walk(lib, e.Name, walked)
	b.Queries, b.AtLeast = total(conf, lib, b.Names, walked)
	b.Unwalked, _ = total(conf, lib, conf.Walk(lib, e.Name, plain), plain)
	b.Whole, _ = total(conf, lib, []string{e.Dig}, func(string) []searchlist.Result { return []searchlist.Result{searchlist.Found, searchlist.Found} })
	if n := len(b.Names); n > 0 {
		b.Found = slices.Contains(walked(b.Names[n-1]), searchlist.Found)
	}
	return b
}

func total(conf searchlist.Conf, lib searchlist.Library, names []string, ask func(string) []searchlist.Result) (n int, atLeast bool) {
	for _, name := range names {
		queries, more := conf.Queries(lib, ask(name))
		n, atLeast = n+queries, atLeast || more
	}
	return n, atLeast
}

// step returns the step of a name. Every name that a library queries has one.
func (e Explanation) step(name string) Step {
	if i := e.index(name); i >= 0 {
		return e.Steps[i]
	}
	return Step{Name: name}
}

func (e Explanation) index(name string) int {
	return slices.IndexFunc(e.Steps, func(s Step) bool { return s.Name == name })
}
