package control

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// Values of Brief.State.
const (
	BriefReady    = "ready"
	BriefDegraded = "degraded"
	BriefNotReady = "not ready"
)

// Brief is the status in one line.
type Brief struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`    // StatusBrief
	State      string   `json:"state"`   // ready, degraded, not ready
	Reasons    []string `json:"reasons"` // empty if State is ready
}

// Brief summarizes the status: ready, or the reasons why not.
func (s Status) Brief() Brief {
	b := Brief{APIVersion: APIVersion, Kind: "StatusBrief", State: BriefReady, Reasons: []string{}}
	for _, route := range s.Routes {
		for _, server := range route.Servers {
			switch {
			case server.State != "down":
			case route.Domain == ".":
				b.Reasons = append(b.Reasons, "upstream "+server.Address+" down")
			default:
				b.Reasons = append(b.Reasons, server.Address+" for "+route.Domain+" down")
			}
		}
	}
	down := s.DownServers()
	for _, problem := range s.Problems {
		if !slices.Contains(down, problem) {
			first, _, _ := strings.Cut(problem, "\n")
			b.Reasons = append(b.Reasons, first)
		}
	}
	switch {
	case !s.Ready:
		b.State = BriefNotReady
		if len(b.Reasons) == 0 {
			b.Reasons = append(b.Reasons, "it is starting")
		}
	case len(b.Reasons) > 0:
		b.State = BriefDegraded
	}
	return b
}

// WriteText prints one line.
func (b Brief) WriteText(w io.Writer) error {
	text := b.State
	if len(b.Reasons) > 0 {
		text += ": " + strings.Join(b.Reasons, "; ")
	}
	_, err := fmt.Fprintln(w, termtext.Escape(text))
	return err
}
