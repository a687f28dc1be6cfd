package nspawn

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/manpage"
	"github.com/node-dns/node-dns/internal/test/rpmbuild"
)

// home is the working directory of the README's commands on the node.
const home = "/root/node-dns"

// TestReadme runs the README's commands as root: it builds the package in a copy of the tree, and
// installs and removes it on a node.
func TestReadme(t *testing.T) {
	n := newPackageNode(t)
	before := n.tree()
	var seen []string
	for _, block := range manpage.Commands(t, filepath.Join(repository, "README.md")) {
		switch block[0] {
		case "go run ./cmd/node-dns demo", "make test":
			continue // test/netns and CI run these
		case "make rpm":
			seen = append(seen, "build")
			n.build(block)
		case "dnf install -y ./dist/node-dns-[0-9]*.$(uname -m).rpm ./dist/node-dns-selinux-*.noarch.rpm":
			seen = append(seen, "install")
			n.typeIn(block)
			n.awaitServing()
			n.checkEvent()
		case "node-dns migrate --apply":
			seen = append(seen, "migrate")
			n.typeIn(block)
			n.awaitServing()
		case "dnf remove -y node-dns node-dns-selinux":
			seen = append(seen, "undo")
			n.typeIn(block)
			if got := n.ReadFile(resolvConf); got != original {
				t.Errorf("got resolv.conf %q", got)
			}
			n.checkTree(before, slices.Concat(users, captured, passing, dnfs)...)
		default:
			t.Errorf("unknown block in the README: %v", block)
		}
	}
	if want := []string{"build", "install", "migrate", "undo"}; !slices.Equal(seen, want) {
		t.Errorf("got the README's blocks %v, want %v", seen, want)
	}
}

// TestFirstNode: the tutorial's commands are the README's, or others that tests run.
func TestFirstNode(t *testing.T) {
	known := []string{
		"systemctl disable --now node-dns",                                     // in a sentence of the README
		"node-dns status", "node-dns doctor", "node-dns query www.example.com", // test/netns runs these, or says why not
	}
	for _, block := range manpage.Commands(t, filepath.Join(repository, "README.md")) {
		known = append(known, block...)
	}
	for _, block := range manpage.Commands(t, filepath.Join(repository, "docs/tutorial/first-node.md")) {
		for _, command := range block {
			if !slices.Contains(known, command) {
				t.Errorf("no test types %s", command)
			}
		}
	}
}

// build runs a block in the source tree, which is not on the node, and copies dist/ to the node.
func (n *node) build(block []string) {
	n.t.Helper()
	tree := filepath.Join(n.t.TempDir(), "tree")
	if err := rpmbuild.CopyTree(tree, rpmbuild.Root(n.t)); err != nil {
		n.t.Fatal(err)
	}
	env := slices.Concat(os.Environ(), []string{"GOPROXY=off"}, hurried(n.t))
	for _, command := range block {
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir, cmd.Env = tree, env
		if out, err := cmd.CombinedOutput(); err != nil {
			n.t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	built, err := filepath.Glob(tree + "/dist/*")
	if err != nil || len(built) == 0 {
		n.t.Fatalf("%v made %v, %v", block, built, err)
	}
	for _, file := range built {
		n.CopyFile(home+"/dist/"+filepath.Base(file), file, 0o644)
	}
}

// hurried is an environment in which rpmbuild compresses quickly (30 s less), with this user's Go
// modules and cache.
func hurried(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".rpmmacros"), []byte("%_binary_payload w1.gzdio\n%_source_payload w1.gzdio\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + dir}
	for _, name := range []string{"GOCACHE", "GOPATH", "GOENV"} {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(out)))
	}
	return env
}

// typeIn runs a block on the node.
func (n *node) typeIn(block []string) {
	n.t.Helper()
	for _, command := range block {
		n.Run("sh", "-c", fmt.Sprintf("cd %s && %s", home, command))
	}
}

// checkEvent: NetworkManager's next event alone applies the next nameserver.
func (n *node) checkEvent() {
	n.t.Helper()
	for _, ns := range []string{ns2, ns1} {
		n.dhcp.SetNameservers(ns)
		n.Run("nmcli", "connection", "up", "eth0")
		n.Await("the next nameserver", func() bool { return n.ask() == ns && strings.Contains(n.hookLog(), "servers="+ns+" ") })
		n.awaitPointed()
	}
}

// hookLog returns the hook's log from its runs by NetworkManager.
func (n *node) hookLog() string {
	return n.Journal("--unit=NetworkManager-dispatcher.service", "--identifier=origin-dns-dispatcher")
}
