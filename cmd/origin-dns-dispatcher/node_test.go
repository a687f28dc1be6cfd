package main_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// node is the machine of a case: the program under test, the resolver, and systemd, which the test
// simulates.
type node struct {
	t       *testing.T
	l       *lab.Lab
	program string
	ip      string

	resolver  *lab.Process // nil if not running
	canStart  bool
	told      bool // the resolver needs its listen address on the command line
	attempted bool // systemd tried to start the resolver
	reloads   int  // number of upstream changes in a running resolver, and of its starts
}

func newNode(t *testing.T, l *lab.Lab, b behavior) *node {
	t.Helper()
	n := &node{
		t: t, l: l, ip: b.nodeIP(), canStart: b.Before.resolverCanStart(),
		program: lab.Binary(t, "origin-dns-dispatcher"), told: len(b.Before.Network.Routes) == 0,
	}
	if b.Before.ResolverActive {
		n.resolver = startResolver(t, l, n.ip, n.told)
	}
	return n
}

// run is one run of the program.
type run struct {
	argv []string
	log  string
}

// attr returns the value of a key in the run's log line, or "".
func (r run) attr(key string) string {
	_, rest, ok := strings.Cut(r.log, " "+key+"=")
	if !ok {
		return ""
	}
	if value, quoted := strings.CutPrefix(rest, `"`); quoted {
		value, _, _ = strings.Cut(value, `"`)
		return value
	}
	value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	return value
}

// exitCode returns the expected exit code according to the log: always 0 for NetworkManager's form,
// and 1 for a verb if resolv.conf is not as it should be.
func (r run) exitCode() int {
	verb := len(r.argv) == 1
	held := r.attr("held") != "" && r.attr("held") != "node-dns does not manage it"
	if verb && (held || r.attr("silence") != "" || r.attr("error") != "") {
		return 1
	}
	return 0
}

// play triggers the events, and does what systemd does after each.
func (n *node) play(events []event) []run {
	n.t.Helper()
	var runs []run
	for _, e := range events {
		switch e.Argv[0] {
		case "(service stop)":
			n.stopResolver()
			runs = append(runs, n.dispatch([]string{"restore"}, nil))
		case "(no dispatcher event)": // the daemon saw the file change; the path unit starts the oneshot unit
			runs = append(runs, n.dispatch([]string{"apply"}, nil))
		default:
			runs = append(runs, n.dispatch(e.Argv, e.Env))
		}
		last := runs[len(runs)-1]
		if last.attr("resolv_conf") != "waiting" {
			continue
		}
		if n.resolver != nil {
			n.t.Errorf("%v still waits for an answering resolver: %s", last.argv, last.log)
		} else if n.startAttempt() {
			runs = append(runs, n.dispatch([]string{"apply"}, nil)) // the daemon's unit, when it is ready
		}
	}
	return runs
}

// startAttempt simulates one attempt of systemd to start the unit, which the dispatcher waits for.
func (n *node) startAttempt() bool {
	if n.attempted {
		return false
	}
	n.attempted = true
	n.reloads++
	if n.canStart {
		n.resolver = startResolver(n.t, n.l, n.ip, n.told)
	}
	return n.canStart
}

func (n *node) stopResolver() {
	if n.resolver != nil {
		n.resolver.Stop()
		n.resolver = nil
	}
}

// dispatch runs the program with only PATH and this environment.
func (n *node) dispatch(argv []string, env map[string]string) run {
	n.t.Helper()
	cmd := exec.Command(n.program, argv...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + lab.Path}
	for key, value := range env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	running := n.resolver != nil
	err := cmd.Run()
	r := run{argv: argv, log: stderr.String()}
	if cmd.ProcessState.ExitCode() != r.exitCode() || stdout.Len() > 0 {
		n.t.Errorf("%v: %v, want exit %d\n%s%s", argv, err, r.exitCode(), &stdout, &stderr)
	}
	if strings.Count(r.log, "\n") != 1 {
		n.t.Errorf("%v: logged %d lines, want one:\n%s", argv, strings.Count(r.log, "\n"), r.log)
	}
	if running && r.attr("upstreams") == "changed" {
		n.reloads++
	}
	return r
}
