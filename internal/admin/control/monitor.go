package control

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const monitorPath = "/v1/monitor"

// MonitorFilter says which queries are to be shown; "" stands for all of them.
type MonitorFilter struct {
	Client string `json:"client,omitempty"` // an address or a network
	// Namespace and Pod are those of the client, where pods are watched.
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`  // its name
	Name      string `json:"name,omitempty"` // and those below it; * stands for any characters
	Type      string `json:"type,omitempty"`
	Rcode     string `json:"rcode,omitempty"`
	// Sampled asks for samples where there are many queries, and for the status now and then.
	Sampled bool `json:"sampled,omitempty"`
}

// MonitorEvent is one line of what goes on: a query that was answered, a change, or how many queries are not shown.
type MonitorEvent struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"` // Query, Change, Lost or Status
	Time       time.Time `json:"time"`

	Client   string `json:"client,omitempty"`   // an address, or "control": it was asked over the control socket
	Pod      string `json:"pod,omitempty"`      // NAMESPACE/NAME of the client; "": not known, or no pod with an address of its own
	Protocol string `json:"protocol,omitempty"` // udp or tcp; "": neither
	Type     string `json:"type,omitempty"`     // "": the query has no question that can be read
	Name     string `json:"name,omitempty"`     // as master files write it
	Rcode    string `json:"rcode,omitempty"`    // "": no response was sent
	By       string `json:"by,omitempty"`       // hit, stale, cluster, local, upstream, failed or refused
	Server   string `json:"server,omitempty"`   // of upstream
	Took     *int64 `json:"tookNanoseconds,omitempty"`
	Why      string `json:"why,omitempty"` // there is no answer

	Change  string `json:"change,omitempty"`  // as the log has it
	Details string `json:"details,omitempty"` // likewise, key=value
	Queries uint64 `json:"queries,omitempty"` // that are not shown; of a Query: that it stands for, itself too, where that is more than one

	Status *Status `json:"status,omitempty"`
}

// Kinds of a MonitorEvent.
const (
	KindQuery  = "Query"
	KindChange = "Change"
	KindLost   = "Lost"
	KindStatus = "Status"
)

// ErrBusy is for a question that too many others have asked already.
var ErrBusy = errors.New("too many ask this already")

// Monitor hands what goes on in the daemon that listens on path to show, until ctx ends, show fails, or the daemon ends, which is
// ErrNotRunning.
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
