package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/node-dns/node-dns/internal/test/manpage"
)

// byOthers maps the documents' console examples that no script covers to the test that does.
var byOthers = map[string]string{
	"node-dns explain web -n shop": "test/netns, where the node has an address",

	"kubectl node-dns status": "internal/admin/fleet",

	"node-dns query nosuch.example.com":               "TestGuidesQueries, where the nameservers have other addresses",
	"node-dns query www.example.com --as 203.0.113.7": "likewise",
	"node-dns query www.example.com. A --trace":       "likewise",
	"node-dns query nosuch.example.com @10.0.0.3":     "likewise",
}

// TestConsoles: the output of our commands in the documents equals that in a script, except for
// what differs between runs.
func TestConsoles(t *testing.T) {
	shown := scriptOutputs(t)
	documents, err := filepath.Glob("../../docs/*/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatalf("%v, %v", documents, err)
	}
	documents = append(documents, "../../README.md")
	seen := 0
	for _, document := range documents {
		for _, c := range manpage.Consoles(t, document) {
			seen++
			if byOthers[c.Command] != "" {
				continue
			}
			want, ok := shown[c.Command]
			if !ok {
				t.Errorf("%s: no script shows what %q prints", document, c.Command)
				continue
			}
			m := masks{"10.0.0.2", "SITE:53", "10.0.0.3", "OTHER:53", "10.0.0.5", "NODE"}
			output, isCut := strings.CutSuffix(c.Output, "\n...\n")
			got := m.mask(output)
			if isCut { // the block shows only the first lines
				got += "\n"
				lines := strings.SplitAfter(want, "\n")
				want = strings.Join(lines[:min(len(lines), strings.Count(got, "\n"))], "")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s (-script +document)\n%s", document, c.Command, diff)
			}
		}
	}
	if seen == 0 {
		t.Error("no document shows what a command prints")
	}
}

// scriptOutputs returns the expected outputs in the scripts.
func scriptOutputs(t *testing.T) map[string]string {
	t.Helper()
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	outputs := map[string]string{}
	for _, script := range scripts {
		data, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		archive := txtar.Parse(data)
		command := ""
		for line := range strings.Lines(string(archive.Comment)) {
			words := strings.Fields(line)
			if _, args, ok := strings.Cut(line, "node-dns --root $ROOT "); ok {
				args, _, _ = strings.Cut(args, " &") // in the background
				command = "node-dns " + strings.TrimSpace(args)
			} else if len(words) == 3 && words[0] == "cmp" && (words[1] == "stdout" || words[1] == "stderr") {
				for _, file := range archive.Files {
					if file.Name == words[2] {
						outputs[command] = string(file.Data)
					}
				}
			}
		}
	}
	return outputs
}
