package control

import (
	"context"
	"errors"
	"slices"

	"github.com/node-dns/node-dns/internal/admin/searchlist"
)

// Explanation says what happens on the wire when a name is looked up.
type Explanation struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Name       string      `json:"name"` // as it was given
	Found      bool        `json:"found"`
	Search     Search      `json:"search"`
	Steps      []Step      `json:"steps"`     // the names that any of the libraries asks for
	Libraries  []Behaviour `json:"libraries"` // glibc first
	Whole      string      `json:"wholeName"` // what is found, or else the name itself, with a dot at its end
	// Dig is the name that dig asks for, alone.
	Dig string `json:"dig"`
	// Walked is what the node says to the first name where it walks a pod's search list; nil: it does not.
	Walked   *Step    `json:"walked,omitempty"`
	Problems []string `json:"problems"`
}

// Behaviour is what one C library does.
type Behaviour struct {
	Library string   `json:"library"` // glibc or musl
	Names   []string `json:"names"`   // that it asks for, in order
	Queries int      `json:"queries"` // that it sends for A and AAAA of them
	AtLeast bool     `json:"atLeast"` // and more, as long as a nameserver fails
	Found   bool     `json:"found"`
	// Whole is how many it sends for what is found, or else for the name itself, with a dot at its end: no list is gone through.
	Whole int `json:"wholeNameQueries"`
	// Unwalked is how many it would send if the node did not walk its list; as many as Queries where it does not.
	Unwalked int `json:"queriesWithoutAutopath"`
}

// FetchExplanation asks the daemon that listens on path for all names that a library may ask for.
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
		e.Problems = append(e.Problems, name+" is not found")
	}
	for _, fault := range e.Search.Faults {
		e.Problems = append(e.Problems, fault.What)
	}
	return e, nil
}

// fetchWalked is the first step as the pod gets it where the node walks its search list; nil: it does not.
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

// behaviour is what a library does with what was found out.
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

// step is that of a name, which is one of the steps.
func (e Explanation) step(name string) Step {
	if i := e.index(name); i >= 0 {
		return e.Steps[i]
	}
	return Step{Name: name}
}

func (e Explanation) index(name string) int {
	return slices.IndexFunc(e.Steps, func(s Step) bool { return s.Name == name })
}
