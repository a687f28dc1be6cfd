package nodeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuides: the examples of node-dns.yaml in the how-to pages have no fault.
func TestGuides(t *testing.T) {
	pages, err := filepath.Glob("../../docs/howto/*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "```yaml\n# /etc/node-dns/node-dns.yaml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			path := filepath.Join(t.TempDir(), "node-dns.yaml")
			if err := os.WriteFile(path, []byte(block), 0o644); err != nil {
				t.Fatal(err)
			}
			seen++
			if config, err := Load(Paths{NodeDNS: path}); err != nil || len(config.Routes)+len(config.Upstreams) == 0 {
				t.Errorf("%s: %v, read %d routes and %d upstreams", page, err, len(config.Routes), len(config.Upstreams))
			}
		}
	}
	if seen < 2 {
		t.Errorf("only %d examples were found", seen)
	}
}
