package main_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// behavior is one case of testdata/dispatcher.yaml: a machine, what happens to it, and the files
// at the end. The file's own "conventions" say how they are compared.
type behavior struct {
	ID       string
	Title    string
	Category string
	Before   before
	Events   []event
	Expected expected
	Verdict  string
	Why      string

	Script        yaml.Node `yaml:"script_3_11"` // what the shell script did, for readers
	References    []string
	OlderReleases string `yaml:"older_releases"`
}

type before struct {
	Files             map[string]beforeFile
	Dirs              []string // the usual directories that exist; empty means all
	Network           network
	ResolverActive    bool  `yaml:"resolver_active"`
	ResolverRestartOK *bool `yaml:"resolver_restart_ok"` // true by default
}

func (b before) resolverCanStart() bool { return b.ResolverRestartOK == nil || *b.ResolverRestartOK }

type network struct {
	Interfaces []struct {
		Name, Type string
		Addrs      []string
	}
	Routes []string
}

// beforeFile is a file's content, or a mapping with its other properties.
type beforeFile struct {
	Content      string
	Symlink      string
	ReadonlyBind bool `yaml:"readonly_bind"`
}

func (f *beforeFile) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		return node.Decode(&f.Content)
	}
	type plain beforeFile
	return node.Decode((*plain)(f))
}

type event struct {
	Argv []string
	Env  map[string]string
}

type expected struct {
	Files   map[string]string
	Reloads int `yaml:"resolver_reload_or_start"`
	Note    string
}

// readBehaviors parses the cases. An unknown key is a failure, because otherwise a case could
// silently test less.
func readBehaviors(t *testing.T) []behavior {
	t.Helper()
	data, err := os.ReadFile("testdata/dispatcher.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Title       string
		Script      string            `yaml:"script_under_test"`
		HowVerified string            `yaml:"how_verified"`
		Verdicts    map[string]string `yaml:"verdict_meaning"`
		Conventions map[string]string
		Behaviors   []behavior `yaml:"cases"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatalf("reading the cases: %v", err)
	}
	return file.Behaviors
}

// nodeIP returns the address that resolv.conf must name at the end.
func (b behavior) nodeIP() string {
	for line := range strings.Lines(b.Expected.Files["/etc/resolv.conf"]) {
		if addr, ok := strings.CutPrefix(line, "nameserver "); ok {
			return strings.TrimSpace(addr)
		}
	}
	return "192.168.122.50" // the conventions' default
}

func (b behavior) String() string { return fmt.Sprintf("%s: %s", b.ID, b.Title) }
