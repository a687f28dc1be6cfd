package nameserver

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPage: the table in the docs matches the code.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/explanation/precedence.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "| | source | says |\n|---|---|---|\n")
	table, _, ended := strings.Cut(table, "\n\n")
	if !found || !ended {
		t.Fatal("the page has no table")
	}
	var want []string
	for i, row := range Table {
		want = append(want, fmt.Sprintf("| %d | %s | %s |", i+1, row.Name, row.Says))
	}
	if diff := cmp.Diff(want, strings.Split(table, "\n")); diff != "" {
		t.Errorf("(-code +page):\n%s", diff)
	}
}

// TestManPage: the man page lists the same sources in the same order.
func TestManPage(t *testing.T) {
	page, err := os.ReadFile("../../../man/node-dns.yaml.5")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n.Sh PRECEDENCE\n")
	section, _, _ = strings.Cut(section, "\n.Sh ")
	_, list, _ := strings.Cut(section, ".Bl -enum")
	items := strings.Split(list, ".It\n")[1:]
	words := []string{"D-Bus", "command line", "cluster", "this file", "dnsmasq's files", "node-config.yaml", "fromCluster", "NetworkManager", "resolv.conf", "last captured"}
	if len(items) != len(Table) || len(items) != len(words) {
		t.Fatalf("got %d sources, want the %d of the code", len(items), len(Table))
	}
	for i, word := range words {
		if !strings.Contains(items[i], word) {
			t.Errorf("source %d is %q, want %q", i+1, items[i], Table[i].Name)
		}
	}
}

// TestTable: each source is in the table once, in order of its value, with a unique name.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for i, row := range Table {
		if row.Source != Source(i+1) || names[row.Name] || row.Name == "" || row.Source.String() != row.Name {
			t.Errorf("row %d is %+v", i+1, row)
		}
		names[row.Name] = true
	}
	if next := Source(len(Table) + 1); LastGood != next-1 || next.String() != "" || Source(0).String() != "" {
		t.Errorf("the table has %d rows, but LastGood is %d", len(Table), LastGood)
	}
}
