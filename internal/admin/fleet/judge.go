package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// answer has the fields of all commands' output that count here. Their names are stable.
type answer struct {
	Kind string `json:"kind"`

	Error string `json:"error"` // of kind Error
	Hint  string `json:"hint"`

	Version  string   `json:"version"`  // of Status and Doctor
	LeftTo   string   `json:"leftTo"`   // of Status, Doctor and ServerList: the node-dns that serves the node instead
	Problems []string `json:"problems"` // of Status, ServerList and Explanation
	Routes   []route  `json:"routes"`   // of Status and ServerList

	Findings []struct { // of Doctor
		Level string `json:"level"`
		What  string `json:"what"`
		Fix   string `json:"fix"`
	} `json:"findings"`

	Found  bool `json:"found"` // of Lookup and Explanation
	Search struct {
		LeftTo string `json:"leftTo"` // as above
	} `json:"search"` // of Lookup and Explanation
	Steps []struct {
		Name    string `json:"name"`
		Answers []struct {
			Type   string `json:"type"`
			Rcode  string `json:"rcode"`
			Answer []struct {
				Type string `json:"type"`
				Data string `json:"data"`
			} `json:"answer"`
		} `json:"answers"`
	} `json:"steps"` // of Lookup
	Libraries []struct {
		Library string `json:"library"`
		Queries int    `json:"queries"`
	} `json:"libraries"` // of Explanation
}

type route struct {
	Domain  string `json:"domain"`
	Servers []struct {
		Address string    `json:"address"`
		State   string    `json:"state"`
		Since   time.Time `json:"since"`
		Error   string    `json:"error"`
	} `json:"servers"`
}

// kinds are the kinds of the commands' output.
var kinds = map[string]string{"status": "Status", "doctor": "Doctor", "servers": "ServerList", "query": "Lookup", "explain": "Explanation"}

// judge reads the output of a node. It is pure.
func judge(command Command, target Target, output Output) Result {
	var a answer
	err := json.Unmarshal(output.Stdout, &a)
	if err != nil || a.Kind != kinds[command.Name] {
		return failed(target, Failed, unansweredCode(a, output), unanswered(a, output))
	}
	r := Result{
		Node: target.Node, Pod: target.Pod, State: OK, Findings: []Finding{}, Facts: []Fact{}, Output: bytes.TrimSpace(output.Stdout),
		addresses: target.Addresses,
	}
	if other := cmp.Or(a.LeftTo, a.Search.LeftTo); other != "" { // this daemon's answer is not that of the daemon that serves the node
		r.State = NotAsked
		r.Findings = []Finding{{Level: Warn, What: "not asked: " + other + " serves the node instead of the pod", Fix: askRPM(command.Name)}}
		r.bound()
		return r
	}
	switch command.Name {
	case "doctor":
		r.Findings = a.doctorFindings()
	case "query":
		if !a.Found {
			r.Findings = []Finding{{What: command.Args[len(command.Args)-1] + " was not found"}}
		}
	default:
		r.Findings = a.problems()
	}
	r.Facts = a.facts(command.Name)
	r.bound()
	if slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == Fail }) {
		r.State, r.ExitCode = Problem, ExitProblem
	}
	return r
}

// unanswered describes an output that is not the answer of the command.
func unanswered(a answer, output Output) Finding {
	f := Finding{What: "unexpected output of node-dns", Fix: "run it on this node alone: --node NODE"}
	text := bytes.TrimSpace(output.Stderr)
	switch {
	case a.Kind == "Error" && a.Error != "":
		f.What, f.Fix = clip(a.Error), clip(a.Hint)
	case len(text) > 0:
		f.What += fmt.Sprintf(", exit code %d: %s", output.Code, clip(string(text)))
	default:
		f.What += fmt.Sprintf(", exit code %d", output.Code)
	}
	return f
}

// unansweredCode returns the exit code for such an output. Only an error of node-dns has one of its
// codes: a shell also exits with 2.
func unansweredCode(a answer, output Output) int {
	if a.Kind == "Error" && output.Code >= ExitUsage && output.Code <= ExitDenied {
		return output.Code
	}
	return ExitProblem
}

func (a answer) doctorFindings() (all []Finding) {
	for _, level := range []Level{Fail, Warn} { // failures first: the number is bounded
		for _, f := range a.Findings {
			if f.Level == string(level) {
				all = append(all, Finding{Level: level, What: f.What, Fix: f.Fix})
			}
		}
	}
	return all
}

// problems returns the problems in a status. For a server that is down, it includes the time.
func (a answer) problems() (all []Finding) {
	since := map[string]time.Time{}
	for _, route := range a.Routes {
		for _, server := range route.Servers {
			if server.State == "down" {
				since[fmt.Sprintf("%s (for %s) is down: %s", server.Address, route.Domain, server.Error)] = server.Since
			}
		}
	}
	for _, what := range a.Problems {
		all = append(all, Finding{What: what, Since: since[what]})
	}
	return all
}

func (a answer) facts(command string) (all []Fact) {
	switch command {
	case "status", "doctor":
		all = append(all, Fact{"version", cmp.Or(a.Version, "unknown")})
	case "servers":
		for _, route := range a.Routes {
			for _, server := range route.Servers {
				all = append(all, Fact{"server", fmt.Sprintf("%s for %s %s", server.Address, route.Domain, server.State)})
			}
		}
	case "query":
		all = append(all, Fact{"answer", a.data()})
	case "explain":
		var words []string
		for _, lib := range a.Libraries {
			words = append(words, fmt.Sprintf("%s %d", lib.Library, lib.Queries))
		}
		all = append(all, Fact{"queries", strings.Join(words, ", ")})
	}
	return all
}

// data returns the records that a lookup found, sorted, or else the last name's response codes.
func (a answer) data() string {
	var records, rcodes []string
	for _, step := range a.Steps {
		rcodes = nil
		for _, answer := range step.Answers {
			rcode := cmp.Or(answer.Rcode, "no response")
			if rcode == "NOERROR" && len(answer.Answer) == 0 {
				rcode = "no " + answer.Type + " record"
			}
			rcodes = append(rcodes, rcode)
			for _, record := range answer.Answer {
				records = append(records, record.Type+" "+record.Data)
			}
		}
	}
	if len(records) > 0 {
		rcodes = records
	}
	slices.Sort(rcodes)
	return cmp.Or(strings.Join(slices.Compact(rcodes), ", "), "none")
}

// Limits on the data kept from a node's answer.
const (
	maxFindings, maxFacts = 50, 200
	maxText               = 400 // bytes of one text
)

// bound truncates large answers, so that one node cannot use up the memory or fill the screen. It
// also sets missing levels.
func (r *Result) bound() {
	r.Findings = r.Findings[:min(len(r.Findings), maxFindings)]
	r.Facts = r.Facts[:min(len(r.Facts), maxFacts)]
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Level, f.What, f.Fix = cmp.Or(f.Level, Fail), clip(f.What), clip(f.Fix)
	}
	for i := range r.Facts {
		r.Facts[i].Value = clip(r.Facts[i].Value)
	}
}

// clip returns the start of a text from outside, as valid UTF-8.
func clip(text string) string {
	if len(text) > maxText {
		text = text[:maxText] + " ..."
	}
	return strings.ToValidUTF8(text, "\ufffd")
}
