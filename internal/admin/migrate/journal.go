package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// JournalFile is where a migration is kept, below the root.
const JournalFile = "/var/lib/node-dns/migration.json"

// journalVersion is that of Journal's form.
const journalVersion = 1

// Phase is how far a migration is.
type Phase string

const (
	Applying Phase = "applying"
	Applied  Phase = "applied"
	Undoing  Phase = "undoing"
)

// Journal is a migration: what was to be done, how far it is, and all that was before. It is written before each step.
type Journal struct {
	Version  int       `json:"version"`
	Phase    Phase     `json:"phase"`
	Began    time.Time `json:"began"`
	Findings []Finding `json:"findings"`
	Steps    []Step    `json:"steps"`
	// Done are the first steps, those that are done; the one behind them may have begun.
	Done  int     `json:"done"`
	Saved []Saved `json:"saved"`
	// Before are the questions that were answered before the first step, and what with.
	Before []Answer `json:"before,omitempty"`
}

// ReadJournal reads the journal below root; nil: there is none.
func ReadJournal(root string) (*Journal, error) {
	data, err := os.ReadFile(filepath.Join(root, JournalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	var j Journal
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, fmt.Errorf("reading the journal %s: %w", JournalFile, err)
	}
	if j.Version != journalVersion || j.Done < 0 || j.Done > len(j.Steps) {
		return nil, fmt.Errorf("reading the journal %s: version %d with %d of %d steps is none of ours", JournalFile, j.Version, j.Done, len(j.Steps))
	}
	return &j, nil
}

// write puts the journal in its place, on the disk. It may hold what only root may read.
func (j Journal) write(root string) error {
	j.Version = journalVersion
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	path := filepath.Join(root, JournalFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	_, err = atomicfile.Writer{}.Write(path, append(data, '\n'), 0o600)
	return err
}
