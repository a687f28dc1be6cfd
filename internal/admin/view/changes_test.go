package view

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

// logged returns a View that can only log, and its log without times.
func logged() (*View, *bytes.Buffer) {
	var text bytes.Buffer
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
		if attr.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return attr
	}}
	log := slog.New(slog.NewTextHandler(&text, options))
	return &View{Log: log, Plain: log}, &text
}

// TestLogListeners: node-dns used to log the wanted addresses, bound or not, complete lists each
// time, and never a failed bind.
func TestLogListeners(t *testing.T) {
	good := func(address string) control.Listener { return control.Listener{Address: address, UDP: true, TCP: true} }
	bad := func(address, reason string) control.Listener {
		return control.Listener{Address: address, Error: reason}
	}
	var pods []control.Listener
	for i := range 9 {
		pods = append(pods, good(fmt.Sprintf("10.128.0.%d:53", i)))
	}
	steps := []struct {
		name  string
		after []control.Listener
		want  string
	}{
		{
			"one is bound, one is not",
			[]control.Listener{good("a"), bad("b", "in use")},
			"level=INFO msg=listening addresses=a condition=listening\nlevel=WARN msg=\"cannot listen\" addresses=b error=\"in use\" condition=listen-failed\n",
		},
		{"a repeated failure is logged once", []control.Listener{good("a"), bad("b", "in use")}, ""},
		{
			"for another reason",
			[]control.Listener{good("a"), bad("b", "no such address")},
			"level=WARN msg=\"cannot listen\" addresses=b error=\"no such address\" condition=listen-failed\n",
		},
		{"the failed one recovers", []control.Listener{good("a"), good("b")}, "level=INFO msg=listening addresses=b condition=listening\n"},
		{"one is removed", []control.Listener{good("b")}, "level=INFO msg=\"stopped listening\" addresses=a\n"},
		{
			"two fail for the same reason",
			[]control.Listener{bad("b", "x"), bad("c", "x")},
			"level=INFO msg=\"stopped listening\" addresses=b\nlevel=WARN msg=\"cannot listen\" addresses=\"b c\" error=x condition=listen-failed\n",
		},
		{
			"many are added", pods,
			"level=INFO msg=listening addresses=\"10.128.0.0:53 10.128.0.1:53 10.128.0.2:53 10.128.0.3:53 10.128.0.4:53 10.128.0.5:53 and 3 more\" condition=listening\n",
		},
	}
	v, text := logged()
	var before []control.Listener
	for _, step := range steps {
		text.Reset()
		v.LogListeners(before, step.after)
		if diff := cmp.Diff(step.want, text.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		before = step.after
	}
}

var errBadConfig = errors.New("a.yaml:1: bad")

func TestLogProblems(t *testing.T) {
	v, text := logged()
	var many []string
	for i := range 8 {
		many = append(many, fmt.Sprintf("no. %d", i))
	}
	steps := []struct {
		after []string
		want  string
	}{
		{[]string{"odd"}, "level=WARN msg=problem problem=odd condition=problem\n"},
		{[]string{"odd"}, ""},
		{[]string{"odd", "a.yaml:1: bad"}, "level=ERROR msg=\"the new configuration is invalid; keeping the running one\" error=\"a.yaml:1: bad\" condition=config-fault\n"},
		{[]string{"odd"}, "level=INFO msg=\"problem solved\" problem=\"a.yaml:1: bad\" condition=problem-solved\n"},
		{nil, "level=INFO msg=\"problem solved\" problem=odd condition=problem-solved\n"},
		{many, strings.Repeat("level=WARN msg=problem problem=\"no. _\" condition=problem\n", 6) + "level=WARN msg=\"more problems; node-dns status shows them\" count=2\n"},
	}
	var before []string
	for _, step := range steps {
		text.Reset()
		v.logProblems(before, step.after, errBadConfig)
		got := text.String()
		for i := range 8 {
			got = strings.ReplaceAll(got, fmt.Sprintf("no. %d", i), "no. _")
		}
		if got != step.want {
			t.Errorf("from %q to %q:\n%s", before, step.after, got)
		}
		before = step.after
	}
}

func TestLogLoops(t *testing.T) {
	set := func(texts ...string) map[nameserver.Server]struct{} {
		all := map[nameserver.Server]struct{}{}
		for _, server := range policytest.Servers(texts...) {
			all[server] = struct{}{}
		}
		return all
	}
	v, text := logged()
	v.LogLoops(nil, set("10.0.0.3", "10.0.0.2"))
	v.LogLoops(set("10.0.0.3", "10.0.0.2"), set("10.0.0.3"))
	want := "level=WARN msg=\"ignoring upstreams that send queries back to this node\" servers=\"10.0.0.2 10.0.0.3\" condition=upstream-loop\n" +
		"level=INFO msg=\"upstreams no longer send queries back to this node\" servers=10.0.0.2\n"
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRoutesAreBounded: a configuration with thousands of servers used to be compared and logged as
// one string.
func TestRoutesAreBounded(t *testing.T) {
	var texts []string
	for i := range 64 {
		texts = append(texts, fmt.Sprintf("10.0.0.%d", i+1))
	}
	var many, other policy.Policy
	for i := range 100 {
		many.Routes = append(many.Routes, forward.Route{Domain: dnsname.MustParse(fmt.Sprintf("r%d.example", i)), Servers: policytest.Servers(texts...)})
		texts[63] = "10.0.1.1" // beyond the servers that the log names
		other.Routes = append(other.Routes, forward.Route{Domain: dnsname.MustParse(fmt.Sprintf("r%d.example", i)), Servers: policytest.Servers(texts...)})
		texts[63] = "10.0.0.64"
	}
	if !forward.SameRoutes(many.Routes, many.Routes) || forward.SameRoutes(many.Routes, other.Routes) || forward.SameRoutes(many.Routes, many.Routes[1:]) {
		t.Error("routes are not compared by value")
	}
	noServers := []forward.Route{{Domain: dnsname.MustParse("example")}} // SERVFAIL there; NXDOMAIN with Local
	local := []forward.Route{{Domain: dnsname.MustParse("example"), Local: true}}
	if forward.SameRoutes(noServers, local) || !forward.SameRoutes(local, local) {
		t.Error("a local domain compares equal to a domain without servers")
	}
	v, text := logged()
	v.logRoutes(nil, many.Routes)
	if got := text.String(); len(got) > 4000 || !strings.Contains(got, "using 6370 more nameservers") || !strings.Contains(got, "r0.example.=10.0.0.1,10.0.0.2,") || !strings.Contains(got, "and 94 more") {
		t.Errorf("%d bytes: %.4100s", len(got), got)
	}
}
