package migrate

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// WriteText prints the findings and the steps.
func (p Plan) WriteText(w io.Writer) error {
	p.Findings, p.Refused, p.Notes = termtext.All(p.Findings), termtext.All(p.Refused), termtext.All(p.Notes)
	var b bytes.Buffer
	switch {
	case len(p.Findings) > 0:
		b.WriteString("This node runs\n")
	case len(p.Refused) == 0:
		b.WriteString("Found no DNS setup to migrate from.\n")
	}
	for _, f := range p.Findings {
		fmt.Fprintf(&b, "  %s: %s\n", f.Origin, f.What)
		for _, line := range f.Evidence {
			fmt.Fprintf(&b, "      %s\n", line)
		}
	}
	if len(p.Findings) > 0 && len(p.Steps)+len(p.Owner)+len(p.Refused) == 0 {
		b.WriteString("node-dns already serves this node; there is nothing to do.\n")
	}
	for i, line := range p.Owner {
		if i == 0 {
			b.WriteString("\nFirst, a cluster administrator does this, in this order:\n")
		}
		fmt.Fprintf(&b, "%3d. %s\n", i+1, termtext.Lines(strings.TrimRight(line, "\n"), "     "))
	}
	for _, note := range p.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	if len(p.Steps) > 0 {
		b.WriteString("\nnode-dns migrate --apply would\n")
	}
	for i, step := range p.Steps {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, termtext.Escape(step.What))
	}
	if len(p.Steps) > 0 && len(p.Refused) == 0 {
		b.WriteString("\nEach step is written to " + JournalFile + " before it is done; node-dns migrate --undo undoes all steps.\n")
	}
	if len(p.Refused) == 0 {
		_ = p.WriteThen(&b) // a Buffer accepts everything
	}
	if len(p.Refused) > 0 {
		b.WriteString("\nIt cannot start:\n")
	}
	for _, why := range p.Refused {
		fmt.Fprintf(&b, "  ! %s\n", why)
	}
	_, err := b.WriteTo(w)
	return err
}

// WriteThen prints what remains to be done after the steps.
func (p Plan) WriteThen(w io.Writer) error {
	var b bytes.Buffer
	for i, line := range p.Then {
		if i == 0 {
			b.WriteString("\nThen, a cluster administrator does this:\n")
		}
		fmt.Fprintf(&b, "  %s\n", termtext.Lines(line, "     "))
	}
	_, err := b.WriteTo(w)
	return err
}

// planDocument is a Plan for output, as text or JSON.
type planDocument struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Plan
}

// Document returns the plan for output.
func (p Plan) Document() planDocument {
	p.Findings = append([]Finding{}, p.Findings...) // an empty list is [], not null
	return planDocument{control.APIVersion, "MigrationPlan", p}
}

// WriteText prints an existing migration and how to continue or undo it.
func (j Journal) WriteText(w io.Writer) error {
	var b bytes.Buffer
	switch j.Phase {
	case Applied:
		fmt.Fprintf(&b, "This node was migrated on %s; node-dns migrate --undo reverts it.\n", j.Began.Format("2006-01-02 15:04 MST"))
	case Undoing:
		fmt.Fprintf(&b, "The undo of the migration of %s is unfinished; node-dns migrate --undo continues it.\n", j.Began.Format("2006-01-02 15:04 MST"))
	default:
		fmt.Fprintf(&b, "The migration of %s stopped at step %d of %d; node-dns migrate --apply continues it, --undo reverts it.\n",
			j.Began.Format("2006-01-02 15:04 MST"), j.Done+1, len(j.Steps))
		for i, step := range j.Steps {
			mark := " "
			if i < j.Done {
				mark = "x"
			}
			fmt.Fprintf(&b, "  [%s] %s\n", mark, termtext.Escape(step.What))
		}
	}
	_, err := b.WriteTo(w)
	return err
}

// journalDocument is a Journal for output, as text or JSON. The JSON has all steps, but not the
// saved files, some of which only root may read.
type journalDocument struct {
	Journal `json:"-"`

	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Phase      Phase     `json:"phase"`
	Began      time.Time `json:"began"`
	Findings   []Finding `json:"findings"`
	Steps      []Step    `json:"steps"`
	Done       int       `json:"done"` // number of finished Steps
}

// Document returns the migration for output.
func (j Journal) Document() journalDocument {
	return journalDocument{j, control.APIVersion, "Migration", j.Phase, j.Began, j.Findings, j.Steps, j.Done}
}
