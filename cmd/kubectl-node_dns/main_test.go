package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/fleet"
)

// TestUsage: mistakes in the command line end with exit code 2, before the API is asked.
func TestUsage(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	tests := []struct {
		args string
		code int
		want string
	}{
		{"bogus", fleet.ExitUsage, `unknown command "bogus"`},
		{"status --bogus", fleet.ExitUsage, "unknown flag: --bogus"},
		{"status n1", fleet.ExitUsage, "status n1: expected no arguments"},
		{"status --node a --all", fleet.ExitUsage, "expected only one of --node, --all and --selector"},
		{"status -l a=b --node a", fleet.ExitUsage, "expected only one of --node, --all and --selector"},
		{"status -o yaml", fleet.ExitUsage, "-o yaml: expected text or json"},
		{"status --parallel 0", fleet.ExitUsage, "--parallel 0: expected 1 or more"},
		{"status --timeout 0s", fleet.ExitUsage, "--timeout 0s: expected a time above 0"},
		{"query", fleet.ExitUsage, "query: expected NAME, and perhaps TYPE"},
		{"query a A IN", fleet.ExitUsage, "query a A IN: expected NAME, and perhaps TYPE"},
		{"explain shop/web-0 db --all", fleet.ExitUsage, "expected no --node, --all or --selector"},
		{"explain shop/ db", fleet.ExitUsage, `"shop/": expected a pod as NAMESPACE/NAME`},
		{"explain a/b/c db", fleet.ExitUsage, `"a/b/c": expected a pod as NAMESPACE/NAME`},
		{"status", fleet.ExitProblem, "no configuration has been provided"},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			root := newRootCommand()
			root.SetArgs(strings.Fields(test.args))
			root.SetOut(new(bytes.Buffer))
			root.SetErr(new(bytes.Buffer))
			cmd, err := root.ExecuteC()
			if err == nil {
				t.Fatal("got no error")
			}
			if got := withHint(cmd, err).Error(); codeOf(err) != test.code || !strings.Contains(got, test.want) {
				t.Errorf("exit code %d: %s", codeOf(err), got)
			}
		})
	}
}

// TestHelp: without a command, the program shows what it can do.
func TestHelp(t *testing.T) {
	root := newRootCommand()
	var out bytes.Buffer
	root.SetArgs(nil)
	root.SetOut(&out)
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kubectl node-dns [command]", "\n  explain ", "\n  status ", "--context string", "--kubeconfig file", "(default \"kube-system\")"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %q:\n%s", want, out.String())
		}
	}
}

func TestCodes(t *testing.T) {
	for err, want := range map[error]int{
		usageError{errors.New("a")}:           fleet.ExitUsage,
		fmt.Errorf("%w in ns", errNoPods):     fleet.ExitNotRunning,
		fmt.Errorf("a: %w", os.ErrPermission): fleet.ExitDenied,
		errors.New("connection refused"):      fleet.ExitProblem,
	} {
		if got := codeOf(err); got != want {
			t.Errorf("%v: got %d, want %d", err, got, want)
		}
	}
}
