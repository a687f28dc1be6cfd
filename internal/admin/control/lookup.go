package control

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/sys/termtext"
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
		l.Search.conf().Walk(resolvconf.GLibc, question.Name, s.ask)
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

func (s *stepper) ask(name string) []resolvconf.Result {
	if i := slices.IndexFunc(s.steps, func(step Step) bool { return step.Name == name }); i >= 0 {
		return s.steps[i].results()
	}
	if s.err != nil {
		return []resolvconf.Result{resolvconf.Refused}
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
		return []resolvconf.Result{resolvconf.Refused}
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

func (s Step) results() []resolvconf.Result {
	var all []resolvconf.Result
	for _, answer := range s.Answers {
		all = append(all, answer.Result())
	}
	return all
}

// Result returns the answer as a C library interprets it.
func (a Answer) Result() resolvconf.Result {
	switch {
	case a.Rcode == "NXDOMAIN":
		return resolvconf.Absent
	case a.Rcode == "NOERROR" && len(a.Answer) > 0:
		return resolvconf.Found
	case a.Rcode == "NOERROR":
		return resolvconf.NoData
	case a.Rcode == "SERVFAIL", a.Rcode == "":
		return resolvconf.Failed
	}
	return resolvconf.Refused
}

// found returns the step that the search ends with: the one with an answer, else one whose name
// exists or whose query failed, else the last one.
func (l Lookup) found() (step Step, ok bool) {
	for _, result := range []resolvconf.Result{resolvconf.Found, resolvconf.NoData, resolvconf.Failed, resolvconf.Refused} {
		for _, step := range l.Steps {
			if slices.Contains(step.results(), result) {
				return step, result == resolvconf.Found
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
	for _, result := range []resolvconf.Result{resolvconf.Found, resolvconf.Failed, resolvconf.Refused, resolvconf.NoData} {
		for _, answer := range s.Answers {
			if answer.Result() == result {
				return answer
			}
		}
	}
	return s.Answers[0]
}

// WriteText prints the found records in zone file format and one line with their origin. If nothing
// was found, it prints such a line for each name that was tried, because the one that failed may
// not be the last.
func (l Lookup) WriteText(w io.Writer) error {
	l = termtext.All(l)
	p := newPage(w)
	step, found := l.found()
	if len(step.Answers) == 0 {
		p.comment("no query sent: the name is too long with every domain of the search list")
		return p.err
	}
	for _, r := range step.records() {
		p.line("%s  %d  %s  %s  %s", r.Name, r.TTL, r.Class, r.Type, r.Data)
	}
	switch n := len(l.Steps); {
	case n == 1:
		p.comment("%s", step.provenance(found))
	case found:
		p.comment("%s; %d names tried", step.provenance(found), n)
	default:
		for _, step := range l.Steps {
			p.comment("%s", step.provenance(found))
		}
		p.comment("%s was not found; %d names tried", l.Name, n)
	}
	for _, step := range l.Steps {
		step.writeTrace(p)
	}
	return p.err
}

// WriteShort prints only the record data.
func (l Lookup) WriteShort(w io.Writer) error {
	l = termtext.All(l)
	p := &page{w: w}
	step, _ := l.found()
	for _, r := range step.records() {
		p.line("%s", r.Data)
	}
	return p.err
}

// comment writes a comment line of a zone file. If it is folded, each part is a comment.
func (p *page) comment(format string, args ...any) {
	p.hanging(";; "+fmt.Sprintf(format, args...), ";;   ")
}

// records returns the records of all answers without duplicates. An alias is in the answer for each
// type.
func (s Step) records() (all []Record) {
	for _, answer := range s.Answers {
		for _, r := range answer.Answer {
			same := func(have Record) bool { return have.Name == r.Name && have.Type == r.Type && have.Data == r.Data }
			if !slices.ContainsFunc(all, same) {
				all = append(all, r)
			}
		}
	}
	return all
}

// provenance describes the result of a step, who answered, and how long that took. It omits the
// name if found is set, because the records contain it.
func (s Step) provenance(found bool) string {
	a := s.best()
	text := s.rcodes()
	if !found {
		text = s.Name + " " + text
	}
	if a.Client != nil {
		text += a.Client.text()
	}
	if by := a.By.text(); by != "" {
		text += " from " + by
	} else {
		text += ", no server answered"
	}
	text += ", in " + milliseconds(a.Took)
	switch {
	case a.By.Cached:
		text += ", " + a.By.memory()
	case a.By.Who != "server" && a.By.Server+a.By.Target != "":
		text += ", not cached"
	}
	if a.By.Walked {
		text += ", after the node walked the search list (autopath)"
	}
	if len(a.Answer) > 0 {
		text += ", TTL " + strconv.FormatUint(uint64(a.Answer[0].TTL), 10)
	}
	if len(a.Flags) > 0 {
		text += ", flags " + strings.Join(a.Flags, " ")
	}
	for _, e := range a.Errors {
		text += ", " + e.text()
	}
	for _, other := range s.Answers { // of the type that failed, if only one did
		if other.outcome() != a.outcome() {
			for _, e := range other.Errors {
				text += ", " + other.Type + ": " + e.text()
			}
		}
	}
	return text
}

// text names the client that the question was answered for.
func (c Client) text() string {
	text := " for " + c.Address
	if c.Pod != "" {
		text += " (" + c.Pod + ")"
	}
	return text
}

// rcodes returns the step's outcome, or one outcome per type if they differ.
func (s Step) rcodes() string {
	first, same := s.Answers[0].outcome(), true
	var words []string
	for _, a := range s.Answers {
		same = same && a.outcome() == first
		words = append(words, a.Type+" "+a.outcome())
	}
	if same || s.best().outcome() == "NOERROR" && !strings.Contains(strings.Join(words, " "), "SERVFAIL") {
		return s.best().outcome()
	}
	return strings.Join(words, ", ")
}

// outcome returns the rcode, or NODATA (RFC 9499 section 5).
func (a Answer) outcome() string {
	switch {
	case a.Rcode == "" && a.Failure != "":
		return "no answer (" + a.Failure + ")"
	case a.Rcode == "":
		return "no answer"
	case a.Rcode == "NOERROR" && len(a.Answer) == 0:
		return "NODATA"
	}
	return a.Rcode
}

// text names the source of the answer. It is empty if no server answered.
func (b By) text() string {
	switch b.Who {
	case "cluster":
		switch {
		case b.Server != "":
			return "the cluster's " + b.Server + over(b.Transport)
		case b.Target != "":
			return "the cluster (built-in), the alias target from " + b.Target
		}
		return "the cluster (built-in)"
	case "upstream":
		if b.Domain != "." && b.Domain != "" {
			return b.Server + over(b.Transport) + " (for " + b.Domain + ", " + b.Source + ")"
		}
		return b.Server + over(b.Transport) + " (" + b.Source + ")"
	case "local data":
		if b.Source != "" {
			return "local data (" + b.Source + ")"
		}
		return "local data"
	case "server":
		return b.Server + over(b.Transport) + ", asked directly"
	case "localhost":
		return "node-dns (localhost)"
	case "itself":
		return "node-dns itself"
	case "rule":
		if b.Source != "" {
			return "node-dns (" + b.Domain + " is not forwarded: " + b.Source + ")"
		}
		return "node-dns (not forwarded)"
	}
	return ""
}

// memory describes the age of a cached answer.
func (b By) memory() string {
	if b.Stale {
		return "STALE, from the cache, " + age(b.Age) + " old"
	}
	return "from the cache, " + age(b.Age) + " old"
}

func (e ExtendedError) text() string {
	text := fmt.Sprintf("EDE %d", e.Code)
	if e.Name != "" {
		text += " (" + e.Name + ")"
	}
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}
