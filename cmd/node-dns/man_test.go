package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/test/manpage"
)

const manPage = "../../man/node-dns.8"

// wholeTree returns all commands, including those that cobra adds at run time.
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

// TestManPage: the man page has exactly the existing commands, flags (in the right place) and exit
// codes.
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
			t.Errorf("the page has flag %s, which does not exist", name)
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
	if diff := cmp.Diff(codes, manpage.Column(t, "../../docs/reference/commands.md", "## Exit codes")); diff != "" {
		t.Errorf("exit codes (-code +document):\n%s", diff)
	}
}

// flagUsage matches a flag, with its short form, in a summary.
var flagUsage = regexp.MustCompile(`(?m)^ +(?:-(\w), )?--([\w-]+)`)

// flagsOf returns the flags of a command and its subcommands, except those common to all commands.
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

// commandsOf returns a command and all its subcommands.
func commandsOf(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, child := range cmd.Commands() {
		all = append(all, commandsOf(child)...)
	}
	return all
}

// TestHelp: each command is in a group, has a description that fits in 80 columns, and has valid
// examples.
func TestHelp(t *testing.T) {
	root := wholeTree()
	byCobra := []string{"help", "completion"}
	for _, cmd := range root.Commands() {
		if cmd.GroupID == "" && cmd.Name() != "version" && !slices.Contains(byCobra, cmd.Name()) {
			t.Errorf("%s is in no group", cmd.Name())
		}
	}
	document, err := os.ReadFile("../../docs/reference/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range root.Groups() {
		var names []string
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID {
				names = append(names, "`"+cmd.Name()+"`")
			}
		}
		if row := "| " + strings.TrimSuffix(group.Title, ":") + " | " + strings.Join(names, ", ") + " |\n"; !strings.Contains(string(document), row) {
			t.Errorf("docs/reference/commands.md has no row\n%s", row)
		}
	}
	for _, cmd := range commandsOf(root) {
		path := strings.Fields(cmd.CommandPath())
		if len(path) > 1 && slices.Contains(byCobra, path[1]) {
			continue
		}
		if width := 2 + max(cmd.NamePadding(), 0) + 1 + len(cmd.Short); width > 80 && cmd != root {
			t.Errorf("%s: the line in the summary has %d columns", cmd.CommandPath(), width)
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			example, _, _ := strings.Cut(strings.TrimSpace(line), "  ") // followed by its purpose
			example, _, _ = strings.Cut(example, " | ")
			if err := understands(example); err != nil {
				t.Errorf("%s: %s: %v", cmd.CommandPath(), example, err)
			}
		}
	}
}

// understands returns an error if node-dns does not accept a command line.
func understands(line string) error {
	words, root := strings.Fields(line), wholeTree()
	if words[0] != "node-dns" {
		return fmt.Errorf("expected a command of node-dns")
	}
	cmd, args, err := root.Find(words[1:])
	if err == nil {
		err = cmd.ParseFlags(args)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err == nil && cmd == root && len(words) > 1 {
		err = fmt.Errorf("expected a command")
	}
	return err
}

// TestManPageExamples: all examples in the man page are valid.
func TestManPageExamples(t *testing.T) {
	seen := 0
	for _, example := range manpage.Read(t, manPage).Examples {
		for line := range strings.Lines(example) {
			words := strings.Fields(line)
			if words[0] != "node-dns" {
				continue
			}
			seen++
			if err := understands(line); err != nil {
				t.Errorf("%s: %v", strings.TrimSpace(line), err)
			}
		}
	}
	if seen == 0 {
		t.Error("the page has no examples")
	}
}
