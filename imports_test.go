// Package nodedns_test holds the laws of the source tree itself.
package nodedns_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/node-dns/node-dns/"

// bands are the packages from low to high. A package may import packages of lower bands only: what is below knows
// nothing of what is above, and what stands side by side can be read apart.
var bands = [][]string{
	{"internal/screen"},
	{"internal/dnsname", "internal/nameserver", "internal/servercookie", "internal/atomicfile", "internal/sockaddr", "internal/busy", "internal/cgroup", "internal/peercred", "internal/procfs", "internal/counting", "internal/clients", "internal/journal", "internal/systembus", "internal/selinux", "internal/dnstest", "internal/golden", "internal/manual", "internal/lab", "internal/kubetest"},
	{"internal/dnswire", "internal/inflight", "internal/precedence", "internal/clusterdns", "internal/faultplan"},
	{"internal/records"},
	{"internal/nm", "internal/resolved", "internal/netstate", "internal/resolvconf", "internal/upstream", "internal/nodeconfig", "internal/dnsserver", "internal/supervise", "internal/systemd", "internal/nftables", "internal/rpmbuild", "internal/vm"},
	{"internal/dnsmasqconf", "internal/searchlist", "internal/firewall"},
	{"internal/hostdns", "internal/cache", "internal/forward", "internal/zone", "internal/autopath", "internal/peers", "internal/localdata", "internal/monitor"},
	{"internal/kubewire"},
	{"internal/cluster"},
	{"internal/control"},
	{"internal/bus", "internal/migrate", "internal/metrics"},
	{"internal/daemon"},
	{"internal/demo", "internal/daemontest", "internal/doctor"},
	{"cmd/origin-dns-dispatcher", "cmd/node-dns"},
	{"bench/result"},
	{"bench"},
	{"test/netns", "test/nspawn", "test/rpm", "test/contrib", "test/alike", "test/faults", "test/soak", "test/edns", "."},
}

// owners say which packages alone may import a library. Tests may import anything.
var owners = map[string][]string{
	"github.com/godbus/dbus/v5":            {"internal/systembus", "internal/nm", "internal/bus", "internal/systemd", "internal/firewall"},
	"github.com/Wifx/gonetworkmanager/v3":  {"internal/nm"},
	"github.com/vishvananda/netlink":       {"internal/netstate", "internal/nftables", "internal/lab"},
	"gopkg.in/yaml.v3":                     {"internal/nodeconfig", "cmd/node-dns"},
	"github.com/prometheus":                {"internal/metrics"},
	"github.com/spf13/cobra":               {"cmd/node-dns"},
	"github.com/coreos/go-systemd/v22":     {"internal/supervise", "internal/journal"},
	"github.com/coredns/caddy":             {"internal/clusterdns"},
	"k8s.io":                               {"internal/cluster", "internal/kubetest"},
	"sigs.k8s.io":                          {"internal/kubetest"},
	"github.com/fsnotify/fsnotify":         {"internal/daemon"},
	"golang.org/x/net/dns/dnsmessage":      {"internal/hostdns"},
	"github.com/rogpeppe/go-internal/diff": {"internal/hostdns"},
}

// dispatcherMustNot are imports that would make the hook large or slow to start, or let it start a program: DHCP's texts once
// reached a shell in its place (CVE-2018-1111).
var dispatcherMustNot = []string{
	"os/exec",
	"net/http", "crypto/tls", "crypto/x509", "text/template", "html/template", "github.com/miekg/dns", "github.com/spf13/cobra",
	"github.com/prometheus/", "k8s.io/",
}

// source is one package directory and what it imports, tests apart.
type source struct {
	dir     string
	imports []string
}

func TestImportsGoDownward(t *testing.T) {
	for _, pkg := range sources(t) {
		here := band(pkg.dir)
		if here < 0 {
			t.Errorf("%s stands in no band: give it a place, and a sentence in the README's package table", pkg.dir)
			continue
		}
		for _, path := range pkg.imports {
			if dir, ours := strings.CutPrefix(path, module); ours && band(dir) >= here {
				t.Errorf("%s (band %d) imports %s (band %d): imports go downward only", pkg.dir, here, dir, band(dir))
			}
		}
	}
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
		t.Fatalf("only %d packages seen below the dispatcher: the walk is broken", len(seen))
	}
}

func band(dir string) int {
	return slices.IndexFunc(bands, func(b []string) bool { return slices.Contains(b, dir) })
}

// sources parses the imports of every package of the module, but not those of its tests.
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
		t.Fatalf("only %d packages found: the walk is broken", len(all))
	}
	return all
}

// isModule reports whether a directory is a module of its own, such as test/e2e: the product's laws are not its.
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
