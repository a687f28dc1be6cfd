package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// Phase is the progress of a Watcher.
type Phase uint8

// Phases of a Watcher.
const (
	NoKubeconfig Phase = iota // the kubeconfig does not exist
	Unreadable                // the kubeconfig, or a file that it names, is unreadable or invalid
	Connecting                // the API server has not answered yet
	Forbidden                 // the API server denies a right that is needed
	Syncing                   // lists are being read
	Synced                    // everything is known and watched
	Stale                     // everything was known, but something could not be watched for staleAfter or longer
)

var phaseNames = [...]string{
	NoKubeconfig: "no kubeconfig", Unreadable: "kubeconfig unreadable", Connecting: "connecting",
	Forbidden: "forbidden", Syncing: "syncing", Synced: "synced", Stale: "stale",
}

// String returns the phase in words.
func (p Phase) String() string { return phaseNames[p] }

// staleAfter is how long an outage does not count as stale. An API server restarts within that
// time.
const staleAfter = time.Minute

// State is the state of the watch.
type State struct {
	Phase      Phase
	Since      time.Time // start of the phase
	Kubeconfig string
	Server     string // URL; empty before the kubeconfig has been read
	// LastError is the reason why the phase is not Synced. It may be empty.
	LastError string
	// Missing are the rights that the API server has denied.
	Missing []Right
	// FromDisk is when the served state was written to SnapshotFile. It is zero if the state is
	// from the API server.
	FromDisk time.Time
	Counts   zone.Counts // served objects

	Totals
	// LastDrop is the last dropped object and the reason. It is empty if none was dropped.
	LastDrop string
}

// Totals are counted since the start.
type Totals struct {
	Events  uint64 // from watches
	Lists   uint64 // completed
	Lost    uint64 // changes that a watch failed to report, found by comparing
	Rewinds uint64 // how often the API server's state was older than what it had reported before
	Dropped uint64 // objects, and changes of objects, that were too big or did not fit
}

// unready returns the State as the reason why queries cannot be answered.
func (s State) unready() error {
	switch {
	case s.Phase == NoKubeconfig:
		return fmt.Errorf("no kubeconfig at %s yet", s.Kubeconfig)
	case s.LastError != "":
		return fmt.Errorf("%s: %s", s.Phase, s.LastError)
	case s.Server == "":
		return errors.New(s.Phase.String())
	}
	return fmt.Errorf("%s %s", s.Phase, s.Server)
}
