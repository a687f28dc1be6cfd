package nodeconfig

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/manpage"
)

const manPage = "../../man/node-dns.yaml.5"

func namesOf[T any](keys []key[T]) []string {
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return names
}

// TestManPageKeys: the man page has exactly the existing keys.
func TestManPageKeys(t *testing.T) {
	page := manpage.Read(t, manPage)
	if diff := cmp.Diff(namesOf(nodeDNSKeys), page.Names("DESCRIPTION", "Ic", "")); diff != "" {
		t.Errorf("keys (-code +page):\n%s", diff)
	}
	if diff := cmp.Diff(namesOf(routeKeys), page.Names("DESCRIPTION", "Ic", "routes")); diff != "" {
		t.Errorf("keys of a route (-code +page):\n%s", diff)
	}
	for _, key := range metricsKeys {
		if !slices.Contains(page.Names("DESCRIPTION", "Cm", "metrics"), key.name) {
			t.Errorf("the page lacks %s of metrics", key.name)
		}
	}
}

// TestManPageExamples: each example is a complete, valid file, and together they use every key.
func TestManPageExamples(t *testing.T) {
	all := ""
	for i, example := range manpage.Read(t, manPage).Examples {
		path := filepath.Join(t.TempDir(), "node-dns.yaml")
		if err := os.WriteFile(path, []byte(example), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(Paths{NodeDNS: path}); err != nil {
			t.Errorf("example %d: %v", i+1, err)
		}
		all += example
	}
	for _, name := range namesOf(nodeDNSKeys) {
		if !regexp.MustCompile(`(?m)^` + name + `:`).MatchString(all) {
			t.Errorf("no example has %s", name)
		}
	}
}

// TestManPageDefaults: every default in the commented file is also in the man page.
func TestManPageDefaults(t *testing.T) {
	commented, err := os.ReadFile("../../packaging/node-dns.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(manPage)
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^#(\w+): (\S+)$`).FindAllStringSubmatch(string(commented), -1)
	if len(shown) < 10 {
		t.Fatalf("only %d keys with a value; the pattern is wrong", len(shown))
	}
	for _, match := range shown {
		if match[1] == "nodeName" || match[1] == "nodeIP" {
			continue // an example in the file, not a default
		}
		found := regexp.MustCompile(`\n\.It Ic (\w+ , )?` + match[1] + `\b`).FindIndex(page)
		if found == nil {
			t.Errorf("the page lacks %s", match[1])
			continue
		}
		entry := string(page[found[1]:])
		entry, _, _ = strings.Cut(entry, "\n.It Ic ")
		if _, value, _ := strings.Cut(entry, "Default:"); !strings.Contains(value, match[2]) {
			t.Errorf("%s: the default is not %s:\n%s", match[1], match[2], entry)
		}
	}
}
