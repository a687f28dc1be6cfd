package nspawn

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/manpage"
	"github.com/node-dns/node-dns/internal/test/rpmbuild"
)

// migrationPage parses docs/howto/migration.md into sections by title.
func migrationPage(t *testing.T) map[string][]manpage.Block {
	t.Helper()
	sections := map[string][]manpage.Block{}
	for _, s := range manpage.Sections(t, filepath.Join(repository, "docs/howto/migration.md")) {
		sections[s.Title] = s.Blocks
	}
	return sections
}

// commands returns the commands of all blocks.
func commands(blocks []manpage.Block) (all []string) {
	for _, b := range blocks {
		all = append(all, b.Commands...)
	}
	return all
}

// way are the page's commands for an origin. TestMigrate and the tests of the other origins run
// them.
var way = []string{"node-dns migrate", "node-dns migrate --apply", "node-dns migrate --undo"}

// byTheCluster are the page's commands for an administrator of an OpenShift 4 cluster, which cannot
// run here. TestImageOfOpenShift executes the Containerfile, and test/contrib checks the applied
// files.
var byTheCluster = []string{
	"node-dns migrate",
	"cp dist/node-dns-[0-9]*.x86_64.rpm dist/node-dns-selinux-*.noarch.rpm contrib/machineconfig/",
	`podman build --from "$(oc adm release info --image-for=rhel-coreos)" --tag registry.example.com/rhcos-node-dns:1 contrib/machineconfig`,
	"podman push registry.example.com/rhcos-node-dns:1",
	"oc apply -f contrib/machineconfig/98-worker-node-dns-image.yaml -f contrib/machineconfig/98-worker-node-dns-config.yaml",
	"oc wait machineconfigpool/worker --for=condition=Updated --timeout=2h",
	"oc apply -f contrib/machineconfig/99-worker-node-dns.yaml",
	"oc delete machineconfig 99-worker-node-dns",
	"oc delete machineconfig 98-worker-node-dns-config 98-worker-node-dns-image",
}

// TestMigrationPage: each section has the commands that a test runs, and shows node-dns's output on
// such a node.
func TestMigrationPage(t *testing.T) {
	page := migrationPage(t)
	for _, row := range []struct {
		title    string
		commands []string
		screen   string // of the tests of internal/admin/migrate; "" if the section shows none
	}{
		{"OpenShift 3", way, "openshift3"},
		{"dnsmasq", way, "dnsmasq"},
		{"OpenShift 4 and OKD", byTheCluster, ""},
		{"NodeLocal DNSCache", way[:1], "nodelocaldns"},
		{"systemd-resolved", way, "systemd-resolved"},
		{"openresolv", way, "openresolv"},
		{"cloud-init", way, "cloud-init"},
		{"k3s and RKE2", way, "k3s"},
	} {
		blocks := page[row.title]
		delete(page, row.title)
		if d := cmp.Diff(row.commands, commands(blocks)); d != "" {
			t.Errorf("the commands of section %s (-tests +page):\n%s", row.title, d)
		}
		screen := ""
		if row.screen != "" {
			text, err := os.ReadFile(filepath.Join(repository, "internal/admin/migrate/testdata", row.screen+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			screen = string(text)
		}
		shown := ""
		for _, b := range blocks {
			shown += b.Screen
		}
		if d := cmp.Diff(screen, shown); d != "" {
			t.Errorf("the screen of section %s (-node-dns +page):\n%s", row.title, d)
		}
	}
	for title, blocks := range page {
		if typed := title == "Everywhere" || title == "Many nodes"; !typed && len(blocks) > 0 {
			t.Errorf("no test runs the commands of section %s", title)
		}
	}
}

// TestMigrationOfPackage runs the page's commands for every node on an OpenShift 3 node, from the
// installation of the package to its removal.
func TestMigrationOfPackage(t *testing.T) {
	o := newOldNode(t, dnsmasqWith{base: openshiftBase, hook: true})
	rpmbuild.Prepare(t, o.Container)
	rpmbuild.Publish(t, o.Container, rpmbuild.Build(t, 1, rpmbuild.Systemd).Main)
	before := o.tree()
	all := commands(migrationPage(t)["Everywhere"])
	for i, command := range all {
		if out := o.Run("sh", "-c", command); out == "" && !strings.HasPrefix(command, "node-dns wait") {
			t.Errorf("%s has no output", command)
		}
		switch {
		case command == "node-dns migrate --dry-run":
			o.checkOld()
		case i+1 < len(all) && all[i+1] == "node-dns migrate --undo":
			o.checkMigrated()
		}
	}
	o.checkEtc(before)
	o.checkOld()
	if !slices.Contains(all, "node-dns migrate --undo") {
		t.Errorf("the commands %q have no way back", all)
	}
}
