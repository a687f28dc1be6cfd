package main

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/manpage"
)

// TestManPage: the man page and the printed summary list every verb and flag, and no others.
func TestManPage(t *testing.T) {
	page := manpage.Read(t, "../../man/origin-dns-dispatcher.8")
	verbs := page.Names("DESCRIPTION", "Cm", "")
	var summary []string
	for _, match := range regexp.MustCompile(`(?m)^  origin-dns-dispatcher ([a-z]+)(.*)`).FindAllStringSubmatch(usage, -1) {
		summary = append(summary, match[1])
		for _, name := range verbFlags(match[1]) {
			if !strings.Contains(match[2], "-"+name) {
				t.Errorf("the summary lacks the flag %s of %s", name, match[1])
			}
		}
	}
	slices.Sort(summary)
	if diff := cmp.Diff(summary, verbs); diff != "" {
		t.Errorf("verbs (-summary +page):\n%s", diff)
	}
	for _, verb := range verbs {
		if c, err := parseCommand([]string{verb}, false); err != nil || c.verb != verb {
			t.Errorf("%s is not a verb: %+v, %v", verb, c, err)
		}
		if diff := cmp.Diff(verbFlags(verb), page.Names("DESCRIPTION", "Fl", verb)); diff != "" {
			t.Errorf("flags of %s (-code +page):\n%s", verb, diff)
		}
	}
	if diff := cmp.Diff([]string{"root"}, page.Names("DESCRIPTION", "Fl", "")); diff != "" {
		t.Errorf("flags of all verbs (-code +page):\n%s", diff)
	}
	var codes []string
	for code := range exitUsage + 1 {
		codes = append(codes, fmt.Sprint(code))
	}
	if diff := cmp.Diff(codes, page.Names("EXIT STATUS", "", "")); diff != "" {
		t.Errorf("exit codes (-code +page):\n%s", diff)
	}
}

// verbFlags returns a verb's flags except --root, which all verbs have.
func verbFlags(verb string) (names []string) {
	c := command{verb: verb}
	c.flags().VisitAll(func(f *flag.Flag) {
		if f.Name != "root" {
			names = append(names, f.Name)
		}
	})
	return names
}

// TestManPageExamples: the commands in the page's examples are valid.
func TestManPageExamples(t *testing.T) {
	examples := manpage.Read(t, "../../man/origin-dns-dispatcher.8").Examples
	if len(examples) == 0 {
		t.Error("got no examples")
	}
	for _, example := range examples {
		for line := range strings.Lines(example) {
			words := strings.Fields(line)
			if c, err := parseCommand(words[1:], false); words[0] != "origin-dns-dispatcher" || err != nil || c.verb == "" {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}
