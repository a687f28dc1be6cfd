package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/intercept/helper"
	"github.com/node-dns/node-dns/internal/test/manpage"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name, args string
		verb       string
		config     helper.Config
		failure    string
	}{
		{"run", "run", "run", helper.Config{Root: "/"}, ""},
		{"run below a directory", "run --root /tmp/x/../y", "run", helper.Config{Root: "/tmp/y"}, ""},
		{"run in a container", "run --stay", "run", helper.Config{Root: "/", Stay: true}, ""},
		{"clean", "clean", "clean", helper.Config{Root: "/"}, ""},
		{"liveness probe", "alive", "alive", helper.Config{Root: "/"}, ""},
		{"no command", "", "", helper.Config{}, "expected run, clean or alive"},
		{"another command", "stop", "", helper.Config{}, `expected run, clean or alive, got "stop"`},
		{"an argument", "run now", "", helper.Config{}, `run takes no argument "now"`},
		{"a flag of another command", "clean --stay", "", helper.Config{}, "flag provided but not defined: -stay"},
	} {
		t.Run(test.name, func(t *testing.T) {
			verb, config, err := parse(strings.Fields(test.args))
			if test.failure != "" {
				if err == nil || err.Error() != test.failure {
					t.Errorf("got the error %v, want %s", err, test.failure)
				}
				return
			}
			if err != nil || verb != test.verb || config != test.config {
				t.Errorf("got %s %+v, %v, want %s %+v", verb, config, err, test.verb, test.config)
			}
		})
	}
}

// TestExitCodes: the exit code tells a usage error from help.
func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		name, args, stdout, stderr string
		code                       int
	}{
		{"help", "--help", usage, "", exitOK},
		{"usage error", "stop", "", "node-dns-intercept: expected run, clean or alive, got \"stop\"\n" + usage, exitUsage},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			if code := run(strings.Fields(test.args), &stdout, &stderr); code != test.code || stdout.String() != test.stdout || stderr.String() != test.stderr {
				t.Errorf("got code %d, %q, %q", code, &stdout, &stderr)
			}
		})
	}
}

// TestManPage: the man page lists every command, and every exit code.
func TestManPage(t *testing.T) {
	page := manpage.Read(t, "../../man/node-dns-intercept.8")
	if got := page.Names("DESCRIPTION", "Cm", ""); !slices.Equal(got, []string{"alive", "clean", "run"}) {
		t.Errorf("got the commands %q", got)
	}
	if got := page.Names("EXIT STATUS", "", ""); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("got the exit codes %q", got)
	}
}
