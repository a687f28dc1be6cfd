package result

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Save writes the report to a directory as bench.json, bench.txt, bench.svg and summary.svg.
func Save(dir string, r Report) error {
	var text strings.Builder
	if err := Write(&text, r); err != nil {
		return err
	}
	return save(dir, "bench.json", r, map[string]string{"bench.txt": text.String(), "bench.svg": Chart(r), "summary.svg": Summary(r)})
}

// SaveFaults writes the report to a directory in two formats: faults.json and faults.md.
func SaveFaults(dir string, r FaultReport) error {
	return save(dir, "faults.json", r, map[string]string{"faults.md": Markdown(r)})
}

// SaveOutages writes the report to a directory in two formats: intercept.json and intercept.txt.
func SaveOutages(dir string, r OutageReport) error {
	return save(dir, "intercept.json", r, map[string]string{"intercept.txt": Outages(r)})
}

// save writes a report as JSON and in its other formats.
func save(dir, name string, report any, others map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("saving the report: %w", err)
	}
	data, err := json.MarshalIndent(report, "", "\t")
	if err != nil {
		return fmt.Errorf("saving the report: %w", err)
	}
	others[name] = string(data) + "\n"
	for name, content := range others {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("saving the report: %w", err)
		}
	}
	return nil
}

// Load reads a bench.json file.
func Load(path string) (r Report, err error) {
	err = load(path, &r, &r.Schema)
	return r, err
}

// LoadFaults reads a faults.json file.
func LoadFaults(path string) (r FaultReport, err error) {
	err = load(path, &r, &r.Schema)
	return r, err
}

// LoadOutages reads an intercept.json file.
func LoadOutages(path string) (r OutageReport, err error) {
	err = load(path, &r, &r.Schema)
	return r, err
}

// load reads a report and checks its schema, which schema points to.
func load(path string, report any, schema *int) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("loading a report: %w", err)
	}
	if err := json.Unmarshal(data, report); err != nil {
		return fmt.Errorf("loading a report: %w", err)
	}
	if *schema != Schema {
		return fmt.Errorf("loading a report: %s has schema %d, not %d", path, *schema, Schema)
	}
	return nil
}
