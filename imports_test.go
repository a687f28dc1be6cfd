// Package nodedns_test checks rules for the whole source tree.
package nodedns_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/node-dns/node-dns/"

// owners are the only packages that may import a library. Tests may import anything.
var owners = map[string][]string{
	"github.com/godbus/dbus/v5":            {"internal/sys/dbusconn", "internal/nm", "internal/admin/dbusapi", "internal/admin/firewall"},
	"github.com/Wifx/gonetworkmanager/v3":  {"internal/nm"},
	"github.com/google/nftables":           {"internal/intercept/helper"},
	"github.com/mdlayher/netlink":          {"internal/intercept/helper"},
	"github.com/vishvananda/netlink":       {"internal/netstate", "internal/intercept/helper", "internal/admin/firewall", "internal/test/lab"},
	"gopkg.in/yaml.v3":                     {"internal/nodeconfig", "cmd/node-dns"},
	"github.com/prometheus":                {"internal/admin/view"},
	"github.com/spf13/cobra":               {"cmd/node-dns", "cmd/kubectl-node_dns"},
	"github.com/spf13/pflag":               {"cmd/node-dns", "internal/admin/fleet"},
	"github.com/gdamore/tcell/v2":          {"internal/admin/top"},
	"github.com/coreos/go-systemd/v22":     {"internal/sys/supervise", "internal/sys/journal", "internal/intercept/helper"},
	"github.com/coredns/caddy":             {"internal/kube/clusterdns"},
	"k8s.io":                               {"internal/kube/cluster", "internal/admin/fleet", "internal/test/kubetest"},
	"sigs.k8s.io":                          {"internal/test/kubetest"},
	"github.com/fsnotify/fsnotify":         {"internal/daemon"},
	"github.com/rogpeppe/go-internal/diff": {"internal/hostdns"},
}

// dispatcherMustNot are imports that would make the hook large or slow to start, or able to start a
// program: DHCP data once reached a shell in NetworkManager's dispatcher scripts (CVE-2018-1111).
var dispatcherMustNot = []string{
	"os/exec",
	"net/http", "crypto/", "text/template", "html/template", "github.com/miekg/dns", "github.com/spf13/cobra",
	"github.com/prometheus/", "k8s.io/",
}

// source is one package directory and its imports, without those of its tests.
type source struct {
	dir     string
	imports []string
}

// architecture is the page whose first list orders the product's packages from top to bottom. Its
// second list has the packages for tests and measurements.
const architecture = "docs/explanation/architecture.md"

// TestImportsGoDownward: a package imports only packages further down the list, so lower packages
// do not know higher ones.
func TestImportsGoDownward(t *testing.T) {
	product, support := packageLists(t)
	for _, pkg := range sources(t) {
		here := slices.Index(product, pkg.dir)
		switch {
		case isForTests(pkg.dir) && (slices.Contains(support, pkg.dir) || !strings.HasPrefix(pkg.dir, "internal/") && pkg.dir != "bench"):
			continue // it may import anything
		case here < 0:
			t.Errorf("%s is in no list of %s: add it with a description", pkg.dir, architecture)
			continue
		}
		for _, path := range pkg.imports {
			dir, isOurs := strings.CutPrefix(path, module)
			switch {
			case !isOurs:
			case isForTests(dir):
				t.Errorf("%s imports %s: product packages never import test support", pkg.dir, dir)
			case slices.Index(product, dir) <= here:
				t.Errorf("%s imports %s, which is above it in %s: imports go downward only", pkg.dir, dir, architecture)
			}
		}
	}
	for _, dir := range slices.Concat(product, support) {
		if files, err := filepath.Glob(filepath.Join(dir, "*.go")); err != nil || len(files) == 0 {
			t.Errorf("%s lists %s, which is not a package: %v", architecture, dir, err)
		}
	}
}

// isForTests reports whether a package serves tests or measurements. The root package holds these
// checks.
func isForTests(dir string) bool {
	first, _, _ := strings.Cut(dir, "/")
	return dir == "." || first == "test" || first == "bench" || strings.HasPrefix(dir, "internal/test/")
}

// packageLists returns the packages of the two lists, in order.
func packageLists(t *testing.T) (product, support []string) {
	t.Helper()
	page, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	first, second, ok := strings.Cut(string(page), "\nFor tests and measurements:\n")
	if !ok {
		t.Fatalf("%s has no second list", architecture)
	}
	item := regexp.MustCompile("(?m)^- `([a-z0-9/_-]+)`: .+$")
	list := func(text string) (dirs []string) {
		for _, match := range item.FindAllStringSubmatch(text, -1) {
			dirs = append(dirs, match[1])
		}
		return dirs
	}
	product, support = list(first), list(second)
	if len(product) < 10 || len(support) < 5 {
		t.Fatalf("got only %d and %d packages in the lists of %s", len(product), len(support), architecture)
	}
	return product, support
}

func TestLibrariesHaveOneOwner(t *testing.T) {
	for _, pkg := range sources(t) {
		for _, path := range pkg.imports {
			for library, allowed := range owners {
				if (path == library || strings.HasPrefix(path, library+"/")) && !slices.Contains(allowed, pkg.dir) {
					t.Errorf("%s imports %s, which belongs to %v", pkg.dir, path, allowed)
				}
			}
		}
	}
}

func TestDispatcherStaysSmall(t *testing.T) {
	byDir := map[string]source{}
	for _, pkg := range sources(t) {
		byDir[pkg.dir] = pkg
	}
	seen := map[string]bool{}
	var visit func(dir, from string)
	visit = func(dir, from string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		for _, path := range byDir[dir].imports {
			for _, heavy := range dispatcherMustNot {
				if path == heavy || strings.HasSuffix(heavy, "/") && strings.HasPrefix(path, heavy) {
					t.Errorf("origin-dns-dispatcher reaches %s through %s", path, from+" -> "+dir)
				}
			}
			if next, ours := strings.CutPrefix(path, module); ours {
				visit(next, from+" -> "+dir)
			}
		}
	}
	visit("cmd/origin-dns-dispatcher", "main")
	if len(seen) < 5 {
		t.Fatalf("got only %d packages below the dispatcher: the walk is broken", len(seen))
	}
}

// sources parses the imports of every package of the module, but not those of tests.
func sources(t *testing.T) []source {
	t.Helper()
	byDir := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") || isModule(path)):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		byDir[dir] = append(byDir[dir], importPaths(t, file.Imports)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []source
	for dir, imports := range byDir {
		all = append(all, source{dir, imports})
	}
	slices.SortFunc(all, func(a, b source) int { return strings.Compare(a.dir, b.dir) })
	if len(all) < 10 {
		t.Fatalf("got only %d packages: the walk is broken", len(all))
	}
	return all
}

// isModule reports whether a directory is a separate module, such as test/e2e, to which these rules
// do not apply.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func importPaths(t *testing.T, specs []*ast.ImportSpec) []string {
	t.Helper()
	var paths []string
	for _, spec := range specs {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// TestArchitectureNamesWhatThereIs: the files and packages that the page and CONTRIBUTING.md name
// exist.
func TestArchitectureNamesWhatThereIs(t *testing.T) {
	page, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	contributing, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	page = append(page, contributing...)
	named := regexp.MustCompile("`((?:internal|cmd|packaging|docs|man)/[A-Za-z0-9_./-]+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 60 {
		t.Errorf("got only %d paths", len(named))
	}
	for _, path := range named {
		if _, err := os.Stat(path[1]); err != nil {
			t.Error(err)
		}
	}
}
