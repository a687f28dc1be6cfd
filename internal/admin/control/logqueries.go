package control

import (
	"context"
	"fmt"
	"io"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

const logQueriesPath = "/v1/log-queries"

// LogQueriesQuestion turns the logging of queries on or off.
type LogQueriesQuestion struct {
	On    *bool `json:"on,omitempty"`    // nil: it stays as it is
	Extra bool  `json:"extra,omitempty"` // each line begins with the query's number, and who has asked
}

// LogQueries says whether queries are written to the journal.
type LogQueries struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	On         bool   `json:"on"`
	Extra      bool   `json:"extra,omitempty"`  // each line begins with the query's number, and who has asked
	Source     string `json:"source,omitempty"` // who said so; "": nobody has said anything
	Rate       int    `json:"rate"`             // queries in a second that are logged at most
	Silent     bool   `json:"silent,omitempty"` // logLevel leaves the lines out
}

// AskLogQueries turns the logging of queries of the daemon that listens on path on or off, and says how it is then.
func AskLogQueries(ctx context.Context, path string, question LogQueriesQuestion) (LogQueries, error) {
	return ask[LogQueries](ctx, path, logQueriesPath, question)
}

// WriteText prints a line, and what one has to know.
func (l LogQueries) WriteText(w io.Writer) error {
	l = termtext.All(l)
	text := "log-queries is off"
	word := "log-queries"
	if l.Extra {
		word += "=extra"
	}
	if l.On {
		text = fmt.Sprintf(word+" is on: journalctl -t node-dns -f (at most %d queries a second)", l.Rate)
	}
	if l.Source != "" {
		text += "\n  by " + l.Source
	}
	if l.Source == "node-dns log-queries" {
		text += ", until node-dns is restarted, or dnsmasq's files say otherwise"
	}
	if l.Silent {
		text += "\n! logLevel leaves these lines out: it must be info or debug"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
