package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// Explanation describes the queries that C libraries send when they look up a name.
type Explanation struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Name       string     `json:"name"` // as given
	Found      bool       `json:"found"`
	Search     Search     `json:"search"`
	Steps      []Step     `json:"steps"`     // one per name that any of the libraries queries
	Libraries  []Behavior `json:"libraries"` // glibc first
	Whole      string     `json:"wholeName"` // the name that was found, or else the given name, with a dot at the end
	// Dig is the only name that dig queries.
	Dig string `json:"dig"`
	// Walked is the answer to the first name if the node walks the pod's search list, and nil if it
	// does not.
	Walked   *Step    `json:"walked,omitempty"`
	Problems []string `json:"problems"`
}

// Behavior describes one C library.
type Behavior struct {
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
	e := Explanation{APIVersion: APIVersion, Kind: "Explanation", Name: name, Dig: wholeName(name), Steps: []Step{}, Libraries: []Behavior{}, Problems: []string{}}
	var err error
	if e.Search, err = FetchSearch(ctx, path, question); err != nil {
		return e, err
	}
	s := stepper{ctx: ctx, path: path, question: LookupQuestion{Name: name}}
	for _, lib := range []resolvconf.Library{resolvconf.GLibc, resolvconf.Musl} {
		e.Search.conf().Walk(lib, name, s.ask)
	}
	e.Steps = append(e.Steps, s.steps...)
	if s.err == nil && len(s.steps) > 0 {
		e.Walked, s.err = fetchWalked(ctx, path, e)
	}
	if s.err != nil {
		return e, s.err
	}
	for _, lib := range []resolvconf.Library{resolvconf.GLibc, resolvconf.Musl} {
		e.Libraries = append(e.Libraries, e.behavior(lib))
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

// behavior predicts a library's queries from the answers.
func (e Explanation) behavior(lib resolvconf.Library) Behavior {
	conf := e.Search.conf()
	plain := func(name string) []resolvconf.Result { return e.step(name).results() }
	walked := func(name string) []resolvconf.Result {
		if e.Walked != nil && e.Walked.Name == name {
			return e.Walked.results()
		}
		return plain(name)
	}
	b := Behavior{Library: string(lib)}
	b.Names = conf.Walk(lib, e.Name, walked)
	b.Queries, b.AtLeast = total(conf, lib, b.Names, walked)
	b.Unwalked, _ = total(conf, lib, conf.Walk(lib, e.Name, plain), plain)
	b.Whole, _ = total(conf, lib, []string{e.Dig}, func(string) []resolvconf.Result { return []resolvconf.Result{resolvconf.Found, resolvconf.Found} })
	if n := len(b.Names); n > 0 {
		b.Found = slices.Contains(walked(b.Names[n-1]), resolvconf.Found)
	}
	return b
}

func total(conf resolvconf.Content, lib resolvconf.Library, names []string, ask func(string) []resolvconf.Result) (n int, atLeast bool) {
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

// WriteText prints the explanation as text.
func (e Explanation) WriteText(w io.Writer) error {
	e = termtext.All(e)
	p := newPage(w)
	p.folded(e.title(), 2)
	p.table(e.table())
	for _, line := range e.queriesText() {
		p.folded(line, 2)
	}
	p.folded(e.digText(), 2)
	e.writeConf(p)
	for _, note := range e.Search.Notes {
		p.folded("  "+note, 4)
	}
	for _, fault := range e.Search.Faults {
		p.folded("! "+fault.What, 4)
		p.line("  %s", fault.Fix) // not folded, so that its commands can be copied
	}
	return p.err
}

func (e Explanation) title() string {
	who := "A process on this node"
	switch {
	case e.Search.Pod != "":
		who = "The pod " + e.Search.Namespace + "/" + e.Search.Pod + " (dnsPolicy " + e.Search.Policy + ")"
	case e.Search.Namespace != "":
		who = "A pod of the namespace " + e.Search.Namespace
	}
	if len(e.Libraries[0].Names) == 0 {
		return who + " sends no query for " + e.Name
	}
	return fmt.Sprintf("%s that looks up %s (ndots:%d) asks in this order:", who, e.Name, e.Search.conf().Ndots())
}

func (e Explanation) table() [][]string {
	rows := [][]string{{"#", "NAME", "ANSWERED BY", "TIME", "RESULT"}}
	for i, step := range e.Steps {
		best := step.best()
		rows = append(rows, []string{strconv.Itoa(i + 1), step.Name, best.By.short(), best.time(), step.result()})
	}
	return rows
}

// short names the source of the answer in a few words.
func (b By) short() string {
	switch {
	case b.Who == "cluster" && b.Server != "":
		return "cluster " + b.Server + over(b.Transport)
	case b.Who == "cluster" && b.Target != "":
		return "cluster, " + b.Target
	case b.Who == "upstream" && b.Domain != "." && b.Domain != "":
		return b.Server + over(b.Transport) + " for " + b.Domain
	case b.Who == "upstream":
		return "upstream " + b.Server + over(b.Transport)
	case b.Who == "localhost", b.Who == "itself", b.Who == "rule":
		return "node-dns"
	case b.Who == "nobody":
		return "no server"
	}
	return b.Who
}

// time returns how long the answer took, or its age if it was cached.
func (a Answer) time() string {
	switch {
	case a.By.Stale:
		return "stale " + age(a.By.Age)
	case a.By.Cached:
		return "cached " + age(a.By.Age)
	}
	return milliseconds(a.Took)
}

// shownAddresses is the maximum number of addresses in a row.
const shownAddresses = 3

// result returns the addresses of the name, or the reason why there are none.
func (s Step) result() string {
	var addresses []string
	for _, r := range s.records() {
		if r.Type == "A" || r.Type == "AAAA" {
			addresses = append(addresses, r.Data)
		}
	}
	switch n := len(addresses); {
	case n > shownAddresses:
		return fmt.Sprintf("%s and %d more", strings.Join(addresses[:shownAddresses], " "), n-shownAddresses)
	case n > 0:
		return strings.Join(addresses, " ")
	}
	text := s.rcodes()
	for _, e := range s.best().Errors {
		text += " (" + e.text() + ")"
	}
	return text
}

// queriesText describes the number of queries.
func (e Explanation) queriesText() []string {
	glibc, musl := e.Libraries[0], e.Libraries[1]
	text := glibc.count() + " on the wire, A and AAAA each"
	if musl.count() == glibc.count() {
		text += ", with glibc and with musl (Alpine)."
	} else {
		text += ", with glibc; " + musl.count() + " with musl (Alpine)."
	}
	if e.Found && glibc.Queries > glibc.Whole && e.Name != e.Whole {
		text += fmt.Sprintf(" %q, with a dot at the end, needs %d", e.Whole, glibc.Whole)
		if musl.Whole != glibc.Whole {
			text += fmt.Sprintf(" and %d", musl.Whole)
		}
		text += "."
	}
	lines := []string{text}
	if difference := e.difference(glibc, musl); difference != "" {
		lines = append(lines, difference)
	}
	switch {
	case e.Walked != nil:
		lines = append(lines, fmt.Sprintf("autopath: the node walks the list for pods of this node and answers the first name with the result; without autopath, %d queries.", glibc.Unwalked))
	case e.Search.Namespace == "":
	case e.Search.Autopath.On:
		lines = append(lines, "autopath is on but has no effect here.")
	default:
		lines = append(lines, "autopath, with which the node walks the list, is off: "+e.Search.Autopath.Why+".")
	}
	return lines
}

func (b Behavior) count() string {
	text := strconv.Itoa(b.Queries) + " queries"
	if b.AtLeast {
		text = "at least " + text
	}
	return text
}

// difference describes how musl deviates from glibc.
func (e Explanation) difference(glibc, musl Behavior) string {
	if strings.Join(glibc.Names, " ") == strings.Join(musl.Names, " ") {
		return ""
	}
	var numbers []string
	for _, name := range musl.Names {
		numbers = append(numbers, "#"+strconv.Itoa(e.index(name)+1))
	}
	text := "musl asks for " + orNone(numbers, " ")
	switch n := len(musl.Names); {
	case slices.Contains(e.Search.Domains, ".") && !musl.Found:
		text += " and finds nothing: it stops at the root domain in the list"
	case musl.Found:
		text += " and finds it"
	case n > 0 && e.step(musl.Names[n-1]).rcodes() == "NXDOMAIN":
		text += " and finds nothing: it uses no search list for a name with so many dots"
		if strings.Count(strings.TrimSuffix(e.Name, "."), ".") < e.Search.conf().Ndots() {
			text = strings.Replace(text, "for a name with so many dots", "at all, because the line is too long for it", 1)
		}
	default:
		text += " and finds nothing: it stops at a name without addresses and at a failure, where glibc continues"
	}
	return text + "."
}

func (e Explanation) digText() string {
	text := "dig asks only for " + e.Dig
	if i := e.index(e.Dig); i >= 0 {
		text = fmt.Sprintf("dig asks only for #%d", i+1)
	}
	return text + "; dig +search, host and nslookup use the search list."
}

// writeConf prints the resolv.conf.
func (e Explanation) writeConf(p *page) {
	var servers []string
	for _, server := range e.Search.Nameservers {
		if e.Search.isOwn(server) {
			server += " (this node)"
		}
		servers = append(servers, server)
	}
	const indent = 13
	row := func(name, format string, args ...any) {
		p.folded(fmt.Sprintf("%-*s", indent, name)+fmt.Sprintf(format, args...), indent)
	}
	row("resolv.conf", "nameserver %s", orNone(servers, ", "))
	row("", "search %s", orNone(e.Search.Domains, " "))
	row("", "options %s", orNone(e.Search.Options, " "))
	switch host := e.Search.Host; {
	case host == nil:
	case host.Path == "":
		row("", "generated by the kubelet without a host file (%s)", host.where())
	default:
		row("", "generated by the kubelet from %s (%s): nameserver %s, search %s", host.Path, host.where(),
			orNone(host.Nameservers, " "), orNone(host.Search, " "))
	}
}

func (h HostFile) where() string {
	if h.Source == "default" {
		return "its default"
	}
	return h.Source
}
