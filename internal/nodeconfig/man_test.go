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

const (
	manPage = "../../man/node-dns.yaml.5"
	keyPage = "../../docs/reference/configuration.md"
)

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

// shownDefaults are the keys that the commented file shows with a value, and the value.
func shownDefaults(t *testing.T) map[string]string {
	t.Helper()
	commented, err := os.ReadFile("../../packaging/node-dns.yaml")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^#(\w+): (\S+)$`).FindAllStringSubmatch(string(commented), -1) {
		if match[1] != "nodeName" && match[1] != "nodeIP" { // there the value is an example
			shown[match[1]] = match[2]
		}
	}
	if len(shown) < 10 {
		t.Fatalf("found only %d keys with a value: the pattern is wrong", len(shown))
	}
	return shown
}

// TestManPageDefaults checks that the man page has the defaults of the commented file.
func TestManPageDefaults(t *testing.T) {
	page, err := os.ReadFile(manPage)
	if err != nil {
		t.Fatal(err)
	}
	for key, shown := range shownDefaults(t) {
		found := regexp.MustCompile(`\n\.It Ic (\w+ , )?` + key + `\b`).FindIndex(page)
		if found == nil {
			t.Errorf("the page has no %s", key)
			continue
		}
		entry := string(page[found[1]:])
		entry, _, _ = strings.Cut(entry, "\n.It Ic ")
		if _, value, _ := strings.Cut(entry, "Default:"); !strings.Contains(value, shown) {
			t.Errorf("%s: the default is not %s:\n%s", key, shown, entry)
		}
	}
}

// TestKeyPage checks that docs/reference/configuration.md has a row for each key and for no other,
// with the default of the commented file, and names the keys of routes and metrics.
func TestKeyPage(t *testing.T) {
	page, err := os.ReadFile(keyPage)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## Keys\n")
	section, _, ended := strings.Cut(section, "\n## ")
	if !found || !ended {
		t.Fatalf("%s has no section of keys", keyPage)
	}
	defaults, meanings := map[string]string{}, map[string]string{}
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (.*?) \\| (.*) \\|$").FindAllStringSubmatch(section, -1) {
		names = append(names, row[1])
		defaults[row[1]], meanings[row[1]] = row[2], row[3]
	}
	slices.Sort(names)
	if diff := cmp.Diff(namesOf(nodeDNSKeys), names); diff != "" {
		t.Errorf("keys (-code +page):\n%s", diff)
	}
	for key, shown := range shownDefaults(t) {
		if !strings.Contains(defaults[key], "`"+shown+"`") {
			t.Errorf("%s: the default is %s, want `%s`", key, defaults[key], shown)
		}
	}
	for key, below := range map[string][]string{"routes": namesOf(routeKeys), "metrics": namesOf(metricsKeys)} {
		for _, name := range below {
			if !strings.Contains(meanings[key], name) {
				t.Errorf("%s: the page lacks %s", key, name)
			}
		}
	}
}
