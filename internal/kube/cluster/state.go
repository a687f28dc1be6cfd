package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// Phase is how far a Watcher is.
type Phase uint8

// The phases.
const (
	NoKubeconfig Phase = iota // there is no such file
	Unreadable                // the kubeconfig, or a file that it names, cannot be read or makes no sense
	Connecting                // the API server has not answered yet
	Forbidden                 // the API server does not let us have what is needed
	Syncing                   // lists are being read
	Synced                    // all is known, and watched
	Stale                     // all was known, but for staleAfter or longer something could not be watched
)

var phaseNames = [...]string{
	NoKubeconfig: "no kubeconfig", Unreadable: "kubeconfig unreadable", Connecting: "connecting",
	Forbidden: "forbidden", Syncing: "syncing", Synced: "synced", Stale: "stale",
}

// String returns the phase in words.
func (p Phase) String() string { return phaseNames[p] }

// staleAfter is how long nothing is called stale: an API server is restarted in that time.
const staleAfter = time.Minute

// State is how the watching goes.
type State struct {
	Phase      Phase
	Since      time.Time // of the phase
	Kubeconfig string
	Server     string // the URL; "" before the kubeconfig has been read
	// LastError is why the phase is not Synced; "" when it is, or nothing is known against it.
	LastError string
	// Missing are the rights that the API server has denied.
	Missing []Right
	// FromDisk is when the state that is served was written to the SnapshotFile. Zero: it is from the API server.
	FromDisk time.Time
	Counts   zone.Counts // objects that are served

	Events  uint64 // told by watches since the start
	Lists   uint64 // read to their end since the start
	Lost    uint64 // changes that a watch should have told and did not, found by comparing
	Rewinds uint64 // times that the API server's state was older than what it had told before
	Dropped uint64 // objects, and changes of such, that were too big or for which there was no room
	// LastDrop is the last of them, and why; "": none was dropped.
	LastDrop string
}

// unready is the State as the reason why nothing can be answered.
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
