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

// migrationPages are the documents about migrating a node to node-dns.
const (
	migrationPage  = "docs/howto/migration.md"
	openshift3Page = "docs/tutorial/openshift3.md"
	openshift4Page = "docs/howto/openshift4.md"
	nodelocalPage  = "docs/howto/nodelocaldns.md"
	manyNodesPage  = "docs/howto/many-nodes.md"
	everyNode      = "Every node" // the section of migrationPage with the commands that are the same for all
)

// blocksOf returns the command blocks of a page by section title.
func blocksOf(t *testing.T, page string) map[string][]manpage.Block {
	t.Helper()
	sections := map[string][]manpage.Block{}
	for _, s := range manpage.Sections(t, filepath.Join(repository, page)) {
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

// way holds the commands of the page for every origin. TestMigrate and the tests of the other
// origins run them, the first one without --dry-run, which is the default.
var way = []string{"node-dns migrate --dry-run", "node-dns migrate --apply", "node-dns migrate --undo"}

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

// TestMigrationPage: the pages contain the commands that a test runs, and show node-dns's output
// for such a node.
func TestMigrationPage(t *testing.T) {
	for _, row := range []struct {
		page     string
		commands []string
		screen   string // of the tests of internal/admin/migrate; "" if the section shows none
	}{
		{openshift3Page, commands(blocksOf(t, migrationPage)[everyNode]), "openshift3"},
		{openshift4Page, byTheCluster, ""},
		{nodelocalPage, []string{"node-dns migrate", "node-dns migrate --apply"}, "nodelocaldns"},
	} {
		var blocks []manpage.Block
		for _, s := range manpage.Sections(t, filepath.Join(repository, row.page)) {
			blocks = append(blocks, s.Blocks...)
		}
		if d := cmp.Diff(row.commands, commands(blocks)); d != "" {
			t.Errorf("the commands of %s (-tests +page):\n%s", row.page, d)
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
			t.Errorf("the screen of %s (-node-dns +page):\n%s", row.page, d)
		}
	}
	page := blocksOf(t, migrationPage)
	for _, command := range way {
		if !slices.Contains(commands(page[everyNode]), command) {
			t.Errorf("%s does not say %s", migrationPage, command)
		}
	}
	for title, blocks := range page {
		if title != everyNode && len(blocks) > 0 {
			t.Errorf("no test types the commands of section %s", title)
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
	all := commands(blocksOf(t, migrationPage)[everyNode])
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
