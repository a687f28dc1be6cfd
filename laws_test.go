package nodedns_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// unsafeFor are the packages that may import unsafe, with the reason: they pass memory to system
// calls for which package unix has no function without allocations. None of them uses data from the
// network as an offset or a length. Package dnswire, which parses messages, does not import unsafe.
var unsafeFor = map[string]string{
	"internal/sys/rawsock":   "epoll_pwait(2), ppoll(2), read(2), sendto(2), timerfd_settime(2), and sockaddr_in in the memory of a sockaddr_in6",
	"internal/sys/stats":     "the address of a variable, as a number: which processor counts where",
	"internal/dns/dnsserver": "recvmmsg(2), sendto(2), sendmmsg(2)",
	"internal/dns/forward":   "epoll_ctl(2), epoll_pwait(2), bind(2), connect(2), recvfrom(2), sendto(2)",
	"internal/admin/control": "getsockopt(2) of SO_PEERGROUPS, whose value is a list",
}

// TestUnsafe: there is no C (DNSpooq's CVE-2020-25681 to 25687, and dnsmasq's heap overflows since,
// were in C), and no unsafe except where it is allowed.
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
					t.Errorf("%s imports unsafe: add the reason here", pkg.dir)
				}
			}
		}
	}
	for dir := range unsafeFor {
		if !seen[dir] {
			t.Errorf("%s does not import unsafe: remove it from the list", dir)
		}
	}
}

// predictable are the packages whose random numbers are worthless to an attacker: the order of
// addresses, the time of the next check, the clients that a test server ignores, and the order of a
// benchmark's slices.
var predictable = []string{"internal/dns/cache", "internal/kube/cluster", "internal/test/dnstest", "internal/dns/zone", "bench"}

// TestRandomNumbers: message IDs, ports and the case of letters come from the kernel's generator
// (CVE-2019-19794: miekg/dns took IDs from math/rand).
func TestRandomNumbers(t *testing.T) {
	for _, pkg := range sources(t) {
		for _, path := range pkg.imports {
			if (path == "math/rand" || path == "math/rand/v2") && !slices.Contains(predictable, pkg.dir) {
				t.Errorf("%s imports %s", pkg.dir, path)
			}
		}
	}
}

// TestNoResolver: no code uses the system's resolver, which reads /etc/resolv.conf, which names
// node-dns.
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

// terminals are the files that may use os.Stdout and os.Stderr. All other code gets a
// termtext.Writer, so that no text from outside reaches a terminal unescaped.
var terminals = []string{"cmd/node-dns/main.go", "cmd/origin-dns-dispatcher/main.go", "cmd/node-dns-intercept/main.go", "cmd/kubectl-node_dns/main.go", "internal/sys/journal/logger.go"}

// TestOneWayToTheTerminal: all programs write to the terminal only through a writer that escapes.
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
					t.Errorf("%s writes to the terminal without termtext.Writer: %s", path, name)
				}
				return true
			})
		}
	}
}

// TestCommentsFit: lines of comments have at most 100 columns, with tabs of four: those of Go, and
// those of the files that an admin gets. Code in comments, which is indented, and directives may be
// longer.
func TestCommentsFit(t *testing.T) {
	ofGo, ofOthers := regexp.MustCompile(`(?m)^(\t*)// .*$`), regexp.MustCompile(`(?m)^(\t*) *# \S.*$`)
	shipped := regexp.MustCompile(`^(charts|contrib|packaging|systemd)/`)
	seen := 0
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "testdata") {
			return err
		}
		comment := ofGo
		if !strings.HasSuffix(path, ".go") {
			if comment = ofOthers; !shipped.MatchString(path) || strings.HasSuffix(path, ".md") {
				return nil
			}
		}
		for _, match := range comment.FindAllStringSubmatch(readText(t, path), -1) {
			seen++
			if columns := utf8.RuneCountInString(match[0]) + 3*len(match[1]); columns > 100 {
				t.Errorf("%s: a comment has %d columns: %s", path, columns, strings.TrimSpace(match[0]))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 10_000 {
		t.Errorf("only %d lines of comments were found", seen)
	}
}

// TestUnraced: `make test` runs each test that lab.RaceEnabled skips or shortens without -race too.
func TestUnraced(t *testing.T) {
	makefile := readText(t, "Makefile")
	_, names, _ := strings.Cut(makefile, "\nUNRACED = ")
	names, _, _ = strings.Cut(names, "\n")
	_, dirs, _ := strings.Cut(makefile, "-run '^($(UNRACED))$$' ")
	dirs, _, _ = strings.Cut(dirs, "\n")
	found := 0
	for _, pkg := range sources(t) {
		paths, err := filepath.Glob(filepath.Join(pkg.dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			for function := range strings.SplitSeq(readText(t, path), "\nfunc Test") {
				name, _, _ := strings.Cut("Test"+function, "(")
				if !strings.Contains(function, "lab.RaceEnabled") || pkg.dir == "." {
					continue
				}
				found++
				if !slices.Contains(strings.Split(names, "|"), name) || !slices.Contains(strings.Fields(dirs), "./"+pkg.dir) {
					t.Errorf("the Makefile runs %s of %s only with -race", name, pkg.dir)
				}
			}
		}
	}
	if found == 0 {
		t.Error("found no test with lab.RaceEnabled")
	}
}

// parsed returns a package's files without its tests.
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
