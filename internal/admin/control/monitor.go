package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

const monitorPath = "/v1/monitor"

// MonitorFilter selects queries. An empty field matches all of them.
type MonitorFilter struct {
	Client string `json:"client,omitempty"` // address or network
	// Namespace and Pod are those of the client, if pods are watched.
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`  // pod name
	Name      string `json:"name,omitempty"` // matches the name and everything below it; * stands for any characters
	Type      string `json:"type,omitempty"`
	Rcode     string `json:"rcode,omitempty"`
	// Sampled requests samples when there are many queries, and a status from time to time.
	Sampled bool `json:"sampled,omitempty"`
}

// MonitorEvent is an answered query, a change, a status, or the number of queries that were not
// shown.
type MonitorEvent struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"` // Query, Change, Lost or Status
	Time       time.Time `json:"time"`

	Client   string `json:"client,omitempty"`   // address, or "control" for a query over the control socket
	Pod      string `json:"pod,omitempty"`      // NAMESPACE/NAME of the client; empty if unknown or if the client is not a pod with its own address
	Protocol string `json:"protocol,omitempty"` // udp or tcp; empty if neither
	Type     string `json:"type,omitempty"`     // empty if the query has no readable question
	Name     string `json:"name,omitempty"`     // in master file format
	Rcode    string `json:"rcode,omitempty"`    // empty if no response was sent
	By       string `json:"by,omitempty"`       // hit, stale, cluster, local, upstream, failed or refused
	Server   string `json:"server,omitempty"`   // upstream nameserver
	Took     *int64 `json:"tookNanoseconds,omitempty"`
	Why      string `json:"why,omitempty"` // reason why there is no answer

	Change  string `json:"change,omitempty"`  // message of the log line
	Details string `json:"details,omitempty"` // attributes of the log line, as key=value
	Queries uint64 `json:"queries,omitempty"` // of Lost: queries not shown; of Query: queries that it represents, including itself, if more than one

	Status *Status `json:"status,omitempty"`
}

// Kinds of a MonitorEvent.
const (
	KindQuery  = "Query"
	KindChange = "Change"
	KindLost   = "Lost"
	KindStatus = "Status"
)

// ErrBusy means that too many clients run the same request.
var ErrBusy = errors.New("too many clients run this command")

// Monitor passes the events of the daemon that listens on path to show until ctx ends or show
// fails. If the daemon stops, it returns ErrNotRunning.
func Monitor(ctx context.Context, path string, filter MonitorFilter, show func(MonitorEvent) error) error {
	var shown error
	err := follow(ctx, path, monitorPath, filter, func(event MonitorEvent) error {
		shown = show(event)
		return shown
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case shown != nil:
		return shown
	case err == nil:
		return fmt.Errorf("%w any more", ErrNotRunning)
	}
	return err
}

// WriteText prints the event as one line.
func (e MonitorEvent) WriteText(w io.Writer) error {
	e = termtext.All(e)
	clock := e.Time.Local().Format("15:04:05.000")
	var err error
	switch e.Kind {
	case KindQuery:
		_, err = fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%s  %s  %-5s %-*s  %-8s  %-10s  %s", clock, e.asker(), orDash(e.Type),
			nameWidth, orDash(e.Name), orDash(e.Rcode), cmp.Or(e.Server, e.By), e.took()+e.reason()), " "))
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

func orDash(s string) string { return cmp.Or(s, "-") }

func thousands(n uint64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

const logQueriesPath = "/v1/log-queries"

// LogQueriesQuestion turns the logging of queries on or off.
type LogQueriesQuestion struct {
	On    *bool `json:"on,omitempty"`    // nil leaves it unchanged
	Extra bool  `json:"extra,omitempty"` // each line begins with the query's number and the client
}

// LogQueries says whether queries are written to the journal.
type LogQueries struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	On         bool   `json:"on"`
	Extra      bool   `json:"extra,omitempty"`  // each line begins with the query's number and the client
	Source     string `json:"source,omitempty"` // who set it; empty if it was never set
	Rate       int    `json:"rate"`             // maximum number of logged queries per second
	Silent     bool   `json:"silent,omitempty"` // logLevel suppresses the lines
}

// AskLogQueries turns query logging of the daemon that listens on path on or off and returns the
// new state.
func AskLogQueries(ctx context.Context, path string, question LogQueriesQuestion) (LogQueries, error) {
	return ask[LogQueries](ctx, path, logQueriesPath, question)
}

// WriteText prints the state in one line, with notes if necessary.
func (l LogQueries) WriteText(w io.Writer) error {
	l = termtext.All(l)
	text := "log-queries is off"
	word := "log-queries"
	if l.Extra {
		word += "=extra"
	}
	if l.On {
		text = fmt.Sprintf(word+" is on: journalctl -t node-dns -f (at most %d queries per second)", l.Rate)
	}
	if l.Source != "" {
		text += "\n  set by " + l.Source
	}
	if l.Source == "node-dns log-queries" {
		text += ", until node-dns restarts or dnsmasq's files change it"
	}
	if l.Silent {
		text += "\n! logLevel suppresses these lines; set it to info or debug"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
