package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// maxGroups is the number of groups, and of values of a fact, that the text shows.
const maxGroups = 20

// WriteText prints the report in a few lines, whatever the number of nodes is. Times are in zone.
func (r Report) WriteText(w io.Writer, zone *time.Location) error {
	var all nameSet
	for _, result := range r.Results {
		all = append(all, result.Node)
	}
	var out strings.Builder
	line := func(hang, format string, args ...any) {
		fmt.Fprintln(&out, termtext.Fold(termtext.Escape(fmt.Sprintf(format, args...)), hang, termtext.Columns(w)))
	}
	line("  ", "%s of %s", number(r.OK), nodes(r.Nodes)+" ok")
	for i, g := range r.Findings {
		if i == maxGroups {
			line("  ", "  %d more problems: -o json has all", len(r.Findings)-i)
			break
		}
		mark := "! "
		if g.Level != Fail {
			mark = "  "
		}
		line("    ", "%s%s: %s%s on %s", mark, number(len(g.Nodes)), g.What, g.since(r.Now, zone), all.summary(g.Nodes))
		if g.Fix != "" {
			line("    ", "    fix: %s", g.Fix)
		}
	}
	for _, facts := range r.Facts {
		for i, value := range facts.Values {
			if i == maxGroups {
				line("  ", "  %d more values of %s: -o json has all", len(facts.Values)-i, facts.Name)
				break
			}
			line("    ", "  %s: %s %s on %s", number(len(value.Nodes)), facts.Name, value.Value, all.summary(value.Nodes))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return number(n) + " nodes"
}

// since returns " since 14:02", or the range of the nodes' times.
func (g Group) since(now time.Time, zone *time.Location) string {
	if g.First.IsZero() {
		return ""
	}
	first, last := moment(g.First, now, zone), moment(g.Last, now, zone)
	if first == last {
		return " since " + first
	}
	return " since " + first + " to " + last
}

// moment formats a time: without the date if it is today's.
func moment(t, now time.Time, zone *time.Location) string {
	t, now = t.In(zone), now.In(zone)
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// WriteJSON prints the report for programs.
func (r Report) WriteJSON(w io.Writer) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, termtext.JSON(text))
	return err
}
