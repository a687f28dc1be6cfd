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
