package nodedns_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unsafeFor are the packages that may import unsafe, and what for: to hand memory to system calls that package unix has no
// function for which allocates nothing. What an octet of the network says is nowhere an offset or a length there: package
// dnswire, which reads messages, has none of it.
var unsafeFor = map[string]string{
	"internal/sys/rawsock":   "epoll_pwait(2), and sockaddr_in in the memory of a sockaddr_in6",
	"internal/sys/percpu":    "the address of a variable, as a number: which processor counts where",
	"internal/dns/dnsserver": "recvmmsg(2), sendto(2), sendmmsg(2)",
	"internal/dns/forward":   "epoll_ctl(2), epoll_pwait(2), bind(2), connect(2), recvfrom(2), sendto(2)",
	"internal/admin/control": "getsockopt(2) of SO_PEERGROUPS, whose value is a list",
}

// TestUnsafe: there is no C (DNSpooq's CVE-2020-25681 to 25687 and dnsmasq's heap overflows since were), and unsafe where it is
// allowed, and nowhere else.
func TestUnsafe(t *testing.T) {
	seen := map[string]bool{}
	for _, pkg := range sources(t) {
		for _, path := range pkg.imports {
			switch path {
			case "C":
				t.Errorf("%s imports C", pkg.dir)
			case "unsafe":
				seen[pkg.dir] = true
				if unsafeFor[pkg.dir] == "" {
					t.Errorf("%s imports unsafe: say here what for", pkg.dir)
				}
			}
		}
	}
	for dir := range unsafeFor {
		if !seen[dir] {
			t.Errorf("%s does not import unsafe: it needs no leave", dir)
		}
	}
}

// guessable are the packages whose random numbers an attacker gains nothing from: an order of addresses, when to look again,
// whom a test server is silent to, and the order of a benchmark's slices.
var guessable = []string{"internal/dns/cache", "internal/kube/cluster", "internal/test/dnstest", "internal/dns/zone", "bench"}

// TestRandomNumbers: message IDs, ports and the letters' case are drawn from the kernel's generator (CVE-2019-19794: miekg/dns
// drew IDs from math/rand).
func TestRandomNumbers(t *testing.T) {
	for _, pkg := range sources(t) {
		for _, path := range pkg.imports {
			if (path == "math/rand" || path == "math/rand/v2") && !slices.Contains(guessable, pkg.dir) {
				t.Errorf("%s imports %s", pkg.dir, path)
			}
		}
	}
}

// TestNoResolver: nothing asks the system's resolver, which asks /etc/resolv.conf, which names us.
func TestNoResolver(t *testing.T) {
	for _, pkg := range sources(t) {
		if !strings.HasPrefix(pkg.dir, "internal/") && !strings.HasPrefix(pkg.dir, "cmd/") {
			continue
		}
		for path, file := range parsed(t, pkg.dir) {
			ast.Inspect(file, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				from, ok := selector.X.(*ast.Ident)
				name := selector.Sel.Name
				if ok && from.Name == "net" && (strings.HasPrefix(name, "Lookup") || strings.HasPrefix(name, "Resolve") || strings.HasSuffix(name, "Resolver")) {
					t.Errorf("%s uses net.%s", path, name)
				}
				return true
			})
		}
	}
}

// terminals are the files that may name os.Stdout and os.Stderr, which everything else is given as a termtext.Writer: nothing that came
// from outside reaches a terminal around it.
var terminals = []string{"cmd/node-dns/main.go", "cmd/origin-dns-dispatcher/main.go", "internal/sys/journal/logger.go"}

// TestOneWayToTheTerminal: both programs write to the terminal by one writer, which escapes.
func TestOneWayToTheTerminal(t *testing.T) {
	for _, pkg := range sources(t) {
		if !strings.HasPrefix(pkg.dir, "internal/") && !strings.HasPrefix(pkg.dir, "cmd/") || pkg.dir == "internal/test/lab" {
			continue
		}
		for path, file := range parsed(t, pkg.dir) {
			ast.Inspect(file, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				switch name := selector.Sel.Name; {
				case isNamed(selector.X, "os") && (name == "Stdout" || name == "Stderr") && !slices.Contains(terminals, path),
					isNamed(selector.X, "fmt") && (name == "Print" || name == "Printf" || name == "Println"):
					t.Errorf("%s writes to the terminal around termtext.Writer: %s", path, name)
				}
				return true
			})
		}
	}
}

// parsed are a package's files, without its tests.
func parsed(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		if files[path], err = parser.ParseFile(token.NewFileSet(), path, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func isNamed(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}
