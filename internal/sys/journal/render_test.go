package journal

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/test/lab"
)

const (
	manPage     = "../../../man/node-dns.8"
	catalogFile = "../../../packaging/journal/node-dns.catalog"
	messages    = "../../../docs/reference/messages.md"
)

// messagesIntro is the text above the list of messages.
const messagesIntro = "# Messages with a MESSAGE_ID\n" +
	"\n" +
	"<!-- Written by `go test ./internal/sys/journal -run Rendered -update`. -->\n" +
	"\n" +
	"Log entries that report a change of the node's DNS have two fields to search or alert by:\n" +
	"`NODE_DNS_CONDITION` has the name below, and `MESSAGE_ID` an ID that never changes.\n" +
	"`journalctl MESSAGE_ID=... -x` and node-dns(8) also say what to do. Words such as NODE_DNS_ERROR are\n" +
	"fields of the entry.\n" +
	"\n"

// TestRenderedManPage: the table in the man page matches the code.
func TestRenderedManPage(t *testing.T) {
	const begin, end = ".\\\" The table below is written by `go test ./internal/sys/journal -run Rendered -update`.\n", ".\\\" End of the table.\n"
	page, err := os.ReadFile(manPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no markers for the table", manPage)
	}
	var table strings.Builder
	table.WriteString(".Bl -tag -width Ds\n")
	for _, c := range inOrder() {
		is := c.Explain()
		fmt.Fprintf(&table, ".It Sy %s\n.Li %s\n.br\n%s", is.Name, is.ID, roff(is.When))
		if is.Do != "" {
			fmt.Fprintf(&table, ".br\n%s", roff(is.Do))
		}
	}
	table.WriteString(".El\n")
	golden.Check(t, manPage, before+begin+table.String()+end+after)
}

// TestRenderedPage checks that the reference page has every condition. The suggested action is only
// in the man page and the catalog.
func TestRenderedPage(t *testing.T) {
	var list strings.Builder
	for _, c := range inOrder() {
		is := c.Explain()
		item := golden.Wrap(fmt.Sprintf("- `%s` (`%s`): %s", is.Name, is.ID, is.When), 98)
		list.WriteString(strings.ReplaceAll(item, "\n", "\n  ") + "\n")
	}
	golden.Check(t, messages, messagesIntro+list.String())
}

// TestRenderedCatalog: the explanations of journalctl -x match the code; @FIELD@ is the entry's own
// (systemd.io/CATALOG).
func TestRenderedCatalog(t *testing.T) {
	var all strings.Builder
	all.WriteString("# Explanations that journalctl -x shows for entries of node-dns and origin-dns-dispatcher.\n" +
		"# Written by `go test ./internal/sys/journal -run Rendered -update`.\n")
	field := regexp.MustCompile(`NODE_DNS_[A-Z_]+`)
	for _, c := range inOrder() {
		is := c.Explain()
		fmt.Fprintf(&all, "\n-- %s\nSubject: DNS of this node: %s\nDefined-By: node-dns\nSupport: https://github.com/node-dns/node-dns\nDocumentation: man:node-dns(8)\n\n%s",
			is.ID, strings.ReplaceAll(is.Name, "-", " "), wrap(field.ReplaceAllString(is.When, "@$0@")))
		if is.Do != "" {
			fmt.Fprintf(&all, "\n%s", wrap(is.Do))
		}
	}
	golden.Check(t, catalogFile, all.String())
}

// TestDocuments: the documents and man pages mention only conditions that exist.
func TestDocuments(t *testing.T) {
	known := map[string]bool{}
	for _, is := range conditions {
		known["MESSAGE_ID="+is.ID], known["NODE_DNS_CONDITION="+is.Name] = true, true
	}
	match := regexp.MustCompile(`\b(MESSAGE_ID=[0-9a-f]{32}|NODE_DNS_CONDITION=[a-z-]+)`)
	seen := 0
	for _, pattern := range []string{"../../../docs/*/*.md", "../../../docs/*.md", "../../../README.md", "../../../man/*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range match.FindAllString(string(text), -1) {
				if seen++; !known[word] {
					t.Errorf("%s mentions %s, which does not exist", path, word)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no document mentions a condition")
	}
	guide, err := os.ReadFile("../../../docs/howto/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(guide), " Alert on ")
	list, _, _ = strings.Cut(list, "\n\n")
	names := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(list, -1)
	if len(names) < 5 {
		t.Errorf("the guide lists %d conditions for alerts: %q", len(names), list)
	}
	for _, name := range names {
		if !known["NODE_DNS_CONDITION="+name[1]] {
			t.Errorf("the guide mentions condition %s, which does not exist", name[1])
		}
	}
}

// TestCatalog: journald's own compiler accepts the complete file.
func TestCatalog(t *testing.T) {
	lab.NeedPrograms(t, "journalctl")
	root := t.TempDir()
	for _, dir := range []string{"/usr/lib/systemd/catalog", "/var/lib/systemd/catalog"} {
		if err := os.MkdirAll(root+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(catalogFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "/usr/lib/systemd/catalog/node-dns.catalog"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("journalctl", "--root="+root, "--update-catalog").CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	list, err := exec.Command("journalctl", "--root="+root, "--list-catalog").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range inOrder() {
		if want := c.Explain().ID + " node-dns: DNS of this node: "; !strings.Contains(string(list), want) {
			t.Errorf("the compiled catalog has no %q", want)
		}
	}
}

func inOrder() []Condition { return slices.Sorted(maps.Keys(conditions)) }

var sentence = regexp.MustCompile(`([\w)"])\. `)

// roff formats text for a man page: one sentence per line, as mdoc(7) recommends.
func roff(text string) string {
	var all strings.Builder
	for _, line := range strings.Split(sentence.ReplaceAllString(text, "$1.\n"), "\n") {
		all.WriteString(wrap(strings.ReplaceAll(line, `\`, `\e`)))
	}
	return all.String()
}

// wrap breaks text into lines of at most 78 bytes.
func wrap(text string) string { return golden.Wrap(text, 78) + "\n" }
