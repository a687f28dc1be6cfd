package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/bench/machine"
	"github.com/node-dns/node-dns/bench/result"
)

// debianTree is the directory of Debian's programs. They are not installed on this machine, because
// their units would be enabled and would occupy port 53 after the next boot.
const debianTree = "debian"

// debianSuite is the Debian release that determines the versions of the peers.
const debianSuite = "bookworm"

// debianPackages are the peers and the client.
const debianPackages = "dnsmasq-base,unbound,dnsdist,pdns-recursor,bind9,knot-resolver,dnsperf"

// coreDNS is the module that the tests with a Kubernetes API compare with too (scripts/test-kube).
const coreDNS = "github.com/coredns/coredns@v1.15.0"

// builds are the commands that build the peers that are Go modules. PROGRAMS is the output
// directory.
var builds = map[string][]string{
	"coredns":    {"env", "GOBIN=PROGRAMS", "go", "install", "-ldflags=-s -w", coreDNS},
	"node-cache": {"go", "build", "-C", "bench/node-cache", "-ldflags=-s -w", "-o", "PROGRAMS/", "k8s.io/dns/cmd/node-cache"},
}

// prepare builds the programs of this tree, and node-dns of the revision before if that is not "",
// and gets the missing peers. It returns the peers that it could not get, with the reason. An error
// means that one of our own programs failed to build.
func prepare(ctx context.Context, programs, before string, wanted []peer) (missing []result.Missing, err error) {
	if err := buildTree(ctx, programs); err != nil {
		return nil, err
	}
	if before != "" {
		if err := buildBefore(ctx, programs, before); err != nil {
			return nil, fmt.Errorf("building node-dns of %s: %w", before, err)
		}
	}
	needs := func(o origin) bool {
		return slices.ContainsFunc(wanted, func(p peer) bool { return p.program.origin == o })
	}
	if err := getDebian(ctx, programs); err != nil && needs(debianOrigin) {
		missing = append(missing, result.Missing{Name: "Debian's packages", Why: err.Error() + "; those of this machine are used"})
	}
	for _, p := range wanted {
		if p.program.origin != moduleOrigin {
			continue
		}
		if err := getModule(ctx, programs, p.program.name); err != nil {
			missing = append(missing, result.Missing{Name: p.name, Why: err.Error()})
		}
	}
	return missing, nil
}

// buildTree builds the programs in C, and node-dns as shipped but with the symbols for profiles.
func buildTree(ctx context.Context, programs string) error {
	if err := os.MkdirAll(programs, 0o755); err != nil {
		return err
	}
	if err := run(ctx, "go", "build", "-trimpath", "-ldflags=-X main.version="+machine.Revision(ctx), "-o", programs+"/", "./cmd/node-dns"); err != nil {
		return fmt.Errorf("building node-dns: %w", err)
	}
	for _, name := range []string{"echo", "upstream", "dial"} {
		if err := run(ctx, compiler(filepath.Join(programs, name), "bench/c", name)...); err != nil {
			return fmt.Errorf("building %s: %w", name, err)
		}
	}
	return nil
}

// buildBefore builds node-dns of an earlier revision in a worktree of its own.
func buildBefore(ctx context.Context, programs, before string) (err error) {
	dir, err := os.MkdirTemp("", "node-dns-before-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tree := filepath.Join(dir, "tree")
	if err := run(ctx, "git", "worktree", "add", "--quiet", "--detach", tree, before); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, run(context.WithoutCancel(ctx), "git", "worktree", "remove", "--force", tree))
	}()
	return run(ctx, "go", "build", "-C", tree, "-trimpath", "-ldflags=-X main.version="+before, "-o", filepath.Join(programs, "node-dns-before"), "./cmd/node-dns")
}

// compiler returns the command that compiles a C program with its shared sources.
func compiler(program, dir, name string) []string {
	argv := []string{"cc", "-O2", "-Wall", "-Wextra", "-pthread", "-o", program}
	for _, file := range []string{name, "batch", "stream"} {
		argv = append(argv, filepath.Join(dir, file+".c"))
	}
	return argv
}

func getDebian(ctx context.Context, programs string) error {
	tree := filepath.Join(programs, debianTree)
	if _, err := os.Stat(tree); err == nil {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("installing them requires root")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		for _, argv := range [][]string{{"apt-get", "update", "-qq"}, {"apt-get", "install", "-y", "-qq", "--no-install-recommends", "mmdebstrap"}} {
			if err := run(ctx, argv...); err != nil {
				return fmt.Errorf("installing mmdebstrap: %w", err)
			}
		}
	}
	if err := os.RemoveAll(tree + ".new"); err != nil {
		return err
	}
	if err := run(ctx, "mmdebstrap", "--quiet", "--variant=apt", "--include="+debianPackages, debianSuite, tree+".new"); err != nil {
		return fmt.Errorf("getting the packages of Debian %s: %w", debianSuite, err)
	}
	return os.Rename(tree+".new", tree)
}

func getModule(ctx context.Context, programs, name string) error {
	if _, err := os.Stat(filepath.Join(programs, name)); err == nil {
		return nil
	}
	var argv []string
	for _, arg := range builds[name] {
		argv = append(argv, strings.ReplaceAll(arg, "PROGRAMS", programs))
	}
	if err := run(ctx, argv...); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(builds[name], " "), err)
	}
	return nil
}

// run runs a program of this machine in the tree and shows its output.
func run(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
