package dbusapi

import (
	"encoding/xml"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/manpage"
)

// TestManPage proves that the man page lists exactly the methods, signals and properties of both
// interfaces.
func TestManPage(t *testing.T) {
	page := manpage.Read(t, "../../../man/org.node_dns.5")
	for section, file := range map[string]struct{ path, iface string }{
		"MANAGER": {"manager.xml", managerInterface}, "DNSMASQ": {"dnsmasq.xml", DnsmasqName},
	} {
		if diff := cmp.Diff(membersOf(t, file.path, file.iface), page.Names(section, "Ic", "")); diff != "" {
			t.Errorf("%s (-code +page):\n%s", file.iface, diff)
		}
	}
}

// membersOf returns the sorted names of an interface's members.
func membersOf(t *testing.T, path, iface string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	type member struct {
		Name string `xml:"name,attr"`
	}
	var node struct {
		Interfaces []struct {
			Name       string   `xml:"name,attr"`
			Methods    []member `xml:"method"`
			Signals    []member `xml:"signal"`
			Properties []member `xml:"property"`
		} `xml:"interface"`
	}
	if err := xml.Unmarshal(data, &node); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range node.Interfaces {
		if i.Name == iface {
			for _, m := range slices.Concat(i.Methods, i.Signals, i.Properties) {
				names = append(names, m.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}
