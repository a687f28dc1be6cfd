package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/test/manpage"
)

const manPage = "../../man/node-dns.8"

// wholeTree is the tree of commands with those that cobra adds when it runs.
func wholeTree() *cobra.Command {
	root := newRootCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.InitDefaultVersionFlag()
	for _, cmd := range append(root.Commands(), root) {
		cmd.InitDefaultHelpFlag()
	}
	return root
}

// TestManPage: it has every command and every flag, where it belongs, and none that there is not; and every exit code.
func TestManPage(t *testing.T) {
	page, root := manpage.Read(t, manPage), wholeTree()
	var commands []string
	for _, cmd := range root.Commands() {
		if cmd.Hidden {
			continue
		}
		commands = append(commands, cmd.Name())
		if diff := cmp.Diff(flagsOf(cmd), page.Names("DESCRIPTION", "Fl", cmd.Name())); diff != "" {
			t.Errorf("flags of %s (-code +page):\n%s", cmd.Name(), diff)
		}
	}
	slices.Sort(commands)
	if diff := cmp.Diff(commands, page.Names("DESCRIPTION", "Cm", "")); diff != "" {
		t.Errorf("commands (-code +page):\n%s", diff)
	}
	common := []string{"h", "help", "root", "v", "version"}
	for _, name := range common {
		if root.Flag(name) == nil && root.Flags().ShorthandLookup(name) == nil {
			t.Errorf("there is no flag %s", name)
		}
	}
	if diff := cmp.Diff(common, page.Names("DESCRIPTION", "Fl", "")); diff != "" {
		t.Errorf("flags of all commands (-code +page):\n%s", diff)
	}
	var codes []string
	for code := range exitDenied + 1 {
		codes = append(codes, fmt.Sprint(code))
	}
	if diff := cmp.Diff(codes, page.Names("EXIT STATUS", "", "")); diff != "" {
		t.Errorf("exit codes (-code +page):\n%s", diff)
	}
	if diff := cmp.Diff(codes, manpage.Column(t, "../../docs/commands.md", "## Exit codes")); diff != "" {
		t.Errorf("exit codes (-code +document):\n%s", diff)
	}
}

// flagUsage is a flag in a summary, with the letter that is short for it.
var flagUsage = regexp.MustCompile(`(?m)^ +(?:-(\w), )?--([\w-]+)`)

// flagsOf are the flags of a command and of those below it, but for what every command has.
func flagsOf(cmd *cobra.Command) []string {
	var names []string
	for _, cmd := range append(cmd.Commands(), cmd) {
		for _, match := range flagUsage.FindAllStringSubmatch(cmd.LocalNonPersistentFlags().FlagUsages(), -1) {
			if match[2] != "help" {
				names = append(names, match[1:]...)
			}
		}
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
	if len(names) == 0 {
		return nil
	}
	return names
}

// TestManPageExamples: what the page says to type is understood.
func TestManPageExamples(t *testing.T) {
	seen := 0
	for _, example := range manpage.Read(t, manPage).Examples {
		for line := range strings.Lines(example) {
			words := strings.Fields(line)
			if words[0] != "node-dns" {
				continue
			}
			seen++
			root := wholeTree()
			cmd, args, err := root.Find(words[1:])
			if err == nil {
				err = cmd.ParseFlags(args)
			}
			if err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil || cmd == root && len(words) > 1 {
				t.Errorf("%s: %v", strings.TrimSpace(line), err)
			}
		}
	}
	if seen == 0 {
		t.Error("there are none")
	}
}
