package control

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// WriteText prints the event as one line.
func (e MonitorEvent) WriteText(w io.Writer) error {
	e = termtext.All(e)
	clock := e.Time.Local().Format("15:04:05.000")
	var err error
	switch e.Kind {
	case KindQuery:
		_, err = fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%s  %s  %-5s %s  %-8s  %-10s  %s", clock, e.asker(), orDash(e.Type), padded(orDash(e.Name)),
			orDash(e.Rcode), e.who(), e.took()+e.reason()), " "))
	case KindLost:
		_, err = fmt.Fprintf(w, "%s  ... %s queries not shown\n", clock, thousands(e.Queries))
	default:
		_, err = fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%s  %-15s  %s %s", clock, "(node-dns)", e.Change, e.Details), " "))
	}
	return err
}

// text describes who watches queries. It is empty if no one does.
func (w Watched) text() string {
	var words []string
	if w.Monitors > 0 {
		words = append(words, fmt.Sprintf("by %d node-dns monitor", w.Monitors))
	}
	if w.LogQueries {
		words = append(words, "log-queries is on")
	}
	return strings.Join(words, "   ")
}

// nameWidth is the width of the name column. Events are printed one by one, so it is fixed at a
// width that fits most names.
const nameWidth = 36

func padded(name string) string { return fmt.Sprintf("%-*s", nameWidth, name) }

// Widths of the columns for the client's address and its pod.
const (
	addressWidth = 15
	podWidth     = 28
)

// asker returns the client, with its pod if known.
func (e MonitorEvent) asker() string {
	if e.Pod == "" {
		return fmt.Sprintf("%-*s", addressWidth, e.Client)
	}
	return fmt.Sprintf("%-*s  %-*s", addressWidth, e.Client, podWidth, e.Pod)
}

// who returns the upstream nameserver, or else the kind of source.
func (e MonitorEvent) who() string {
	if e.Server != "" {
		return e.Server
	}
	return e.By
}

func (e MonitorEvent) took() string {
	if e.Took == nil {
		return "-"
	}
	return milliseconds(time.Duration(*e.Took))
}

func (e MonitorEvent) reason() string {
	if e.Why == "" {
		return ""
	}
	return "  " + e.Why
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func thousands(n uint64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
