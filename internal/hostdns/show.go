package hostdns

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/node-dns/node-dns/internal/sys/termtext"
	"github.com/node-dns/node-dns/internal/upstream"
)

// apiVersion is part of all JSON output.
const apiVersion = "node-dns/v1"

// WriteText prints the plan's changes as diffs, and the reasons for them.
func (p Plan) WriteText(w io.Writer, silence error) error {
	out := &textWriter{w: w}
	switch servers := serverList(p); {
	case p.isRestore():
	case servers == "" && p.source() == "":
		out.printf("upstreams: none\n")
	default:
		out.printf("upstreams: %s (%s), from %s\n", cmp.Or(servers, "none"), p.Change, cmp.Or(p.source(), "none"))
	}
	for _, route := range routeSources(p, " from ") {
		out.printf("route:     %s\n", route)
	}
	for _, r := range p.Selection.Refused {
		out.printf("refused:   %s from %s: %s\n", r.Text, r.Origin, r.Reason)
	}
	out.printf("resolv.conf: %s\n", p.intent(silence))
	if p.OtherWriter != "" {
		out.printf("besides: %s\n", p.OtherWriter)
	}
	out.list("conflict", p.Conflicts)
	out.list("warning", p.Warnings)
	out.list("problem", p.Problems)
	steps := p.Steps(silence == nil)
	for _, step := range steps {
		out.printf("\n%s", p.describe(step))
	}
	if len(steps) == 0 {
		out.printf("nothing to do\n")
	}
	return out.err
}

// intent summarizes what the plan does to resolv.conf.
func (p Plan) intent(silence error) string {
	switch _, verdict := p.decide(silence == nil); {
	case verdict == Held:
		return "left alone: " + p.Hold
	case verdict == Waiting:
		return fmt.Sprintf("left alone: %v", silence)
	case verdict == Restored && silence != nil:
		return fmt.Sprintf("the original nameservers (%v)", silence)
	case verdict == Restored && p.Hold != "":
		return "the original nameservers: " + p.Hold
	case verdict == Restored:
		return "the original nameservers"
	case p.Hold != "":
		return p.Nameserver.Addr().String() + " (it answers), the rest left alone: " + p.Hold
	}
	return p.Nameserver.Addr().String() + " (it answers)"
}

// WriteResult prints the outcome of a restore.
func (p Plan) WriteResult(w io.Writer, result Result) error {
	out := &textWriter{w: w}
	for _, path := range result.Written {
		out.printf("changed %s\n", p.Paths.host(path))
	}
	switch {
	case result.ResolvConf == Restored:
		out.printf("/etc/resolv.conf has the original nameservers\n")
	case p.Hold != "":
		out.printf("/etc/resolv.conf is left alone: %s\n", p.Hold)
	case len(result.Written) == 0:
		out.printf("nothing to do\n")
	}
	out.list("warning", p.Warnings)
	out.list("problem", p.Problems)
	return out.err
}

// describe shows one step, and which program is notified.
func (p Plan) describe(step Step) string {
	if step.Renew {
		return p.describeChange(step) + "make NetworkManager rewrite " + p.Paths.host(step.Path) + "\n"
	}
	if step.Tell == noProgram {
		return p.describeChange(step)
	}
	tell := "make " + string(step.Tell) + " reload its configuration\n"
	if step.Action == WriteFile && step.Before.is(step.Data) || step.Action == Remove && !step.Before.Exists { // an earlier run ended before the notification
		return tell
	}
	return p.describeChange(step) + tell
}

// describeChange returns a diff, or a sentence if there is no text to compare.
func (p Plan) describeChange(step Step) string {
	path := p.Paths.host(step.Path)
	switch step.Action {
	case Remove, RemoveTree, RemoveDir:
		return string(step.Action) + " " + path + "\n"
	case MakeLink:
		return "link " + path + " -> " + step.Target + "\n"
	}
	if step.Secret {
		return fmt.Sprintf("write %s, mode %04o: credentials, which are not shown\n", path, step.Mode)
	}
	if text := diff.Diff(path, step.Before.Data, path, step.Data); len(text) > 0 {
		_, text, _ := strings.Cut(string(text), "\n") // the line "diff PATH PATH" repeats the next one
		return text
	}
	return fmt.Sprintf("write %s again, mode %04o\n", path, step.Mode)
}

func (p Plan) source() string { return p.Selection.Origin.With(p.Selection.Detail) }

// planJSON is the format of `plan -o json`.
type planJSON struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Upstreams  []string         `json:"upstreams"`
	Routes     []upstream.Route `json:"routes"`
	Source     string           `json:"source"`
	Change     Change           `json:"change"`
	Nameserver string           `json:"nameserver,omitempty"`
	Answers    bool             `json:"answers"` // also false if it was not queried
	ResolvConf string           `json:"resolvConf"`
	Besides    string           `json:"besides,omitempty"`
	Refused    []string         `json:"refused"`
	Conflicts  []string         `json:"conflicts"`
	Warnings   []string         `json:"warnings"`
	Problems   []string         `json:"problems"`
	Steps      []stepJSON       `json:"steps"`
}

type stepJSON struct {
	Path    string `json:"path"`
	Action  Action `json:"action"`
	Content string `json:"content,omitempty"`
	Target  string `json:"target,omitempty"`
	Tell    bool   `json:"tellsNetworkManager,omitempty"`
	Resolve bool   `json:"tellsSystemdResolved,omitempty"`
}

// WriteJSON prints the information of WriteText as JSON.
func (p Plan) WriteJSON(w io.Writer, silence error) error {
	out := planJSON{
		APIVersion: apiVersion, Kind: "Plan", Source: p.source(), Change: cmp.Or(p.Change, None),
		Answers: p.asks() && silence == nil, ResolvConf: p.intent(silence),
		Besides: p.OtherWriter, Upstreams: []string{}, Refused: []string{}, Steps: []stepJSON{},
		Routes:    append([]upstream.Route{}, p.Selection.Set.Routes...),
		Conflicts: append([]string{}, p.Conflicts...), Warnings: append([]string{}, p.Warnings...), Problems: append([]string{}, p.Problems...),
	}
	if p.Nameserver.IsValid() {
		out.Nameserver = p.Nameserver.Addr().String()
	}
	for _, server := range p.Selection.Set.Servers {
		out.Upstreams = append(out.Upstreams, server.String())
	}
	for _, r := range p.Selection.Refused {
		out.Refused = append(out.Refused, r.Text+": "+r.Reason)
	}
	for _, step := range p.Steps(silence == nil) {
		content := string(step.Data)
		if step.Secret {
			content = ""
		}
		out.Steps = append(out.Steps, stepJSON{
			p.Paths.host(step.Path), step.Action, content, step.Target, step.Tell == networkManager || step.Renew, step.Tell == systemdResolved,
		})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(out)
}

// textWriter keeps the first error, so that a page of output needs one check. It escapes control
// characters, because the diffs show content of files.
type textWriter struct {
	w   io.Writer
	err error
}

func (t *textWriter) printf(format string, args ...any) {
	if t.err == nil {
		_, t.err = io.WriteString(t.w, termtext.Lines(fmt.Sprintf(format, args...), ""))
	}
}

func (t *textWriter) list(kind string, texts []string) {
	for _, text := range texts {
		t.printf("%s: %s\n", kind, text)
	}
}
