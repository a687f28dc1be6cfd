package control

import (
	"context"
	"errors"
	"fmt"
	"time"
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
