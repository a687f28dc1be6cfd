package dbusapi

import (
	"encoding/xml"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/manpage"
)

// TestManPage: it has every method, signal and property of both interfaces, and none that there is not.
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

// membersOf are the names of an interface's members, sorted.
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
