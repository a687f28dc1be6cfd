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

// TestManPage: the page, and the summary that the program prints, have every verb and flag, and none that there is not.
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
			t.Errorf("%s is no verb: %+v, %v", verb, c, err)
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

// verbFlags are a verb's flags, but for --root, which all have.
func verbFlags(verb string) (names []string) {
	c := command{verb: verb}
	c.flags().VisitAll(func(f *flag.Flag) {
		if f.Name != "root" {
			names = append(names, f.Name)
		}
	})
	return names
}

// TestManPageExamples: what the page says to type is understood.
func TestManPageExamples(t *testing.T) {
	examples := manpage.Read(t, "../../man/origin-dns-dispatcher.8").Examples
	if len(examples) == 0 {
		t.Error("there are none")
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
