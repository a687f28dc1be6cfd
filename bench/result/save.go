package result

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Save writes the report into a directory, in its three forms: bench.json, bench.txt and bench.svg.
func Save(dir string, r Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("saving the report: %w", err)
	}
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return fmt.Errorf("saving the report: %w", err)
	}
	var text strings.Builder
	if err := Write(&text, r); err != nil {
		return err
	}
	for name, content := range map[string]string{"bench.json": string(data) + "\n", "bench.txt": text.String(), "bench.svg": Chart(r)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("saving the report: %w", err)
		}
	}
	return nil
}

// Load reads a bench.json.
func Load(path string) (Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Report{}, fmt.Errorf("loading a report: %w", err)
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return Report{}, fmt.Errorf("loading a report: %w", err)
	}
	if r.Schema != Schema {
		return Report{}, fmt.Errorf("loading a report: %s has schema %d, not %d", path, r.Schema, Schema)
	}
	return r, nil
}
