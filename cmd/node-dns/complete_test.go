package main

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestSafeWords: clients choose which names are cached, and root completes them in a shell that may
// expand them.
func TestSafeWords(t *testing.T) {
	for _, test := range []struct {
		name, word string
		isSafe     bool
	}{
		{"a name", "_http._tcp.web-1.shop.svc.cluster.local", true},
		{"a pod", "shop/web-0", true},
		{"a server", "@10.0.0.2:53", true},
		{"a server with IPv6", "@[fd00::2]:53", true},
		{"a server over TLS", "@dns+tls://10.0.0.2#dns.example", true},
		{"a command", "$(id).example", false},
		{"a command in backquotes", "`id`.example", false},
		{"a variable", "$HOME.example", false},
		{"a flag", "-rf.example", false},
		{"a second command", "a;id", false},
		{"a quote", `a"b`, false},
		{"an escape", `a\032b`, false},
		{"a pattern", "*.example", false},
		{"a space", "a b", false},
		{"a line break", "a\nb", false},
		{"a non-ASCII letter", "ä.example", false},
		{"empty", "", false},
	} {
		if got := len(safeWords([]string{test.word})) == 1; got != test.isSafe {
			t.Errorf("%s: %q offered: %v", test.name, test.word, got)
		}
	}
}

// TestCompletionEverywhere: commands and flags offer files only where they take one.
func TestCompletionEverywhere(t *testing.T) {
	takesFile := []string{"config", "root"}
	for _, cmd := range commandsOf(newRootCommand()) {
		if cmd.ValidArgs == nil && cmd.ValidArgsFunction == nil {
			t.Errorf("%s has no completion of its arguments", cmd.CommandPath())
		}
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			words, ok := cmd.GetFlagCompletionFunc(flag.Name)
			if !ok {
				t.Errorf("%s --%s has no completion", cmd.CommandPath(), flag.Name)
				return
			}
			if slices.Contains(takesFile, flag.Name) {
				return
			}
			if _, directive := words(cmd, nil, ""); directive&cobra.ShellCompDirectiveNoFileComp == 0 {
				t.Errorf("%s --%s offers files", cmd.CommandPath(), flag.Name)
			}
		})
	}
}
