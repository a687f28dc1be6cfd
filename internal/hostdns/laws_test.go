package hostdns

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/upstream"
)

// checkLaws checks the invariants of every plan against one State. Every row, random State and fuzz
// input goes through it.
func checkLaws(t *testing.T, s State) {
	t.Helper()
	p := NewPlan(s)
	s.Net = assumed(&s)
	checkUpstreams(t, s, p)
	for _, step := range slices.Concat(p.Capture, p.IfAnswering, p.IfSilent, p.TakeFromNM, p.GiveToNM, p.Forget) {
		checkStep(t, s, step)
	}
	checkAnswering(t, s, p)
	checkSilent(t, s, p)
	checkPointing(t, s, p)
}

// checkPointing: whatever is wrong with the host, a resolv.conf that is ours names this node while
// it answers, and the original otherwise.
func checkPointing(t *testing.T, s State, p Plan) {
	t.Helper()
	if !s.isOurs() {
		return
	}
	answering, silent := after(s, p.Steps(true)).ResolvConf, after(s, p.Steps(false)).ResolvConf
	switch {
	case !p.Nameserver.IsValid():
	case s.NetErr != nil:
		if !sameFile(answering, s.ResolvConf) {
			t.Errorf("changed without knowing the node's addresses\n%s", answering.Data)
		}
	default:
		named := nameserverLines(t, string(answering.Data))
		if !slices.Equal(named, []netip.Addr{p.Nameserver.Addr()}) || !s.Net.IsLocal(named[0]) {
			t.Errorf("%v answers, but libc would query %v", p.Nameserver, named)
		}
	}
	if len(restoreSteps(&s)) > 0 && IsOurs(silent.Data) {
		t.Errorf("nothing answers and an original is known, but libc is left with\n%s", silent.Data)
	}
	if s.ConfigErr != nil && len(p.IfAnswering) > 0 && !slices.Equal(searchLines(answering), searchLines(s.ResolvConf)) {
		t.Errorf("the search list changes although the cluster domain is unknown:\n%s", answering.Data)
	}
}

func searchLines(f File) []string {
	var lines []string
	for line := range strings.Lines(string(f.Data)) {
		if rest, ok := keyword(line, "search"); ok {
			lines = append(lines, rest)
		}
	}
	return lines
}

// checkUpstreams: a good list stays while no better one is known, and this node is never its own
// upstream.
func checkUpstreams(t *testing.T, s State, p Plan) {
	t.Helper()
	refused := refuse(&s)
	good := slices.ContainsFunc(lastGood(&s).Set.Servers, func(server nameserver.Server) bool {
		a := server.Addr.Addr()
		return refused(server) == "" && !a.IsUnspecified() && !a.IsMulticast() && a != addr("255.255.255.255")
	})
	if good && len(p.Selection.Set.Servers) == 0 {
		t.Errorf("%v was known, but nothing is selected", lastGood(&s).Set)
	}
	all := p.Selection.Set.Servers
	for _, route := range p.Selection.Set.Routes {
		all = append(all[:len(all):len(all)], route.Servers...)
	}
	if record, err := upstream.ParseRecord(s.Record.Data); err == nil && p.Selection.Origin == upstream.ResolvConf {
		for _, addr := range record.Pointed {
			if slices.ContainsFunc(p.Selection.Set.Servers, func(server nameserver.Server) bool {
				return server == nameserver.FromAddr(addr) && !slices.Contains(lastGood(&s).Set.Servers, server)
			}) {
				t.Errorf("%v, which resolv.conf once named as this node, became an upstream through a file", addr)
			}
		}
	}
	for _, server := range all {
		a := server.Addr.Addr()
		if a.IsUnspecified() || a == addr("127.0.0.53") || server.Addr.Port() == 53 && !a.IsLoopback() && s.Net.IsLocal(a) && (s.Placement().All || slices.Contains(s.named(), a)) ||
			slices.Contains(s.Placement().Listen, server.Addr) {
			t.Errorf("%v, which is this node, is selected as an upstream", server)
		}
	}
}

// checkStep checks mode and content of a file that a step writes.
func checkStep(t *testing.T, s State, step Step) {
	t.Helper()
	if step.Action != WriteFile {
		return
	}
	if step.Path != s.Paths.Original && step.Path != s.Paths.ResolvConf && step.Mode != 0o644 {
		t.Errorf("%s: got mode %v", step.Path, step.Mode)
	}
	switch step.Path {
	case s.Paths.Upstreams:
		if string(step.Data) != string(s.Upstreams.Data) { // otherwise only the mode was wrong
			checkUpstreamsFile(t, string(step.Data))
		}
	case s.Paths.NodeResolvConf:
		if string(step.Data) != string(s.NodeResolvConf.Data) {
			checkNodeResolvConf(t, s, string(step.Data))
		}
	case s.Paths.Record:
		if string(step.Data) == string(s.Record.Data) { // only the mode was wrong
			return
		}
		if _, err := upstream.ParseRecord(step.Data); err != nil {
			t.Errorf("the record cannot be read back: %v", err)
		}
	case s.Paths.Facts:
		if _, err := nodeconfig.ParseFacts(step.Data); err != nil {
			t.Errorf("the facts cannot be read back: %v", err)
		}
	}
}

// checkNodeResolvConf: the file names only upstreams that a pod can query, or this node if there
// are none.
func checkNodeResolvConf(t *testing.T, s State, text string) {
	t.Helper()
	addrs, here := nameserverLines(t, text), s.Placement().Nameserver
	usedByPods := selectUpstreams(&s).Set
	if len(s.Config.Upstreams) > 0 {
		refused := refuse(&s)
		usedByPods.Servers = slices.DeleteFunc(slices.Clone(s.Config.Upstreams), func(server nameserver.Server) bool { return refused(server) != "" })
	}
	if strings.HasPrefix(text, noneForPods+"\n") {
		if len(addrs) > 1 || here.IsValid() && !slices.Contains(addrs, here) || len(forPods(usedByPods)) > 0 {
			t.Errorf("node resolv.conf says that pods have no upstream, but does not name only %v:\n%s", here, text)
		}
		return
	}
	if len(addrs) == 0 {
		t.Errorf("node resolv.conf has no nameserver and gives no reason:\n%s", text)
	}
	for _, a := range addrs {
		if a.IsLoopback() || a.Zone() != "" || !slices.Contains(usedByPods.Servers, nameserver.FromAddr(a)) {
			t.Errorf("node resolv.conf names %v, which a pod cannot or must not query:\n%s", a, text)
		}
	}
}

// checkUpstreamsFile reads the file as dnsmasq would: a comment, server=ADDRESS, or
// server=/DOMAIN/ADDRESS.
func checkUpstreamsFile(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		value, ok := strings.CutPrefix(line, "server=")
		value, ended := strings.CutSuffix(value, "\n")
		if domain, server, routed := strings.Cut(strings.TrimPrefix(value, "/"), "/"); routed {
			ok = ok && strings.Trim(domain, hostBytes) == ""
			value = server
		}
		host, port, _ := strings.Cut(value, "#")
		_, err := netip.ParseAddr(host)
		if line != tlsOnly && (!ok || !ended || err != nil || strings.Trim(port, "0123456789") != "") {
			t.Errorf("upstream file has the line %q: %v", line, err)
		}
	}
}

const hostBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.*"

// nameserverLines returns the addresses in a resolv.conf's nameserver lines, which must hold
// nothing else.
func nameserverLines(t *testing.T, text string) []netip.Addr {
	t.Helper()
	var addrs []netip.Addr
	for line := range strings.Lines(text) {
		rest, ok := keyword(line, "nameserver")
		if !ok {
			continue
		}
		a, err := netip.ParseAddr(strings.Trim(rest, " \t"))
		if err != nil || strings.Trim(a.Zone(), hostBytes) != "" {
			t.Errorf("nameserver line %q: %v", line, err)
		}
		addrs = append(addrs, a)
	}
	return addrs
}

// keyword parses a line as glibc's MATCH macro does, after removing LF or CRLF.
func keyword(line, word string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(lineText(line), word)
	return rest, ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
}

func lineText(line string) string { return strings.TrimRight(strings.TrimSuffix(line, "\n"), "\r") }

// others returns the lines that every editor of a resolv.conf must keep, in order.
func others(text string) []string {
	kept := []string{}
	for line := range strings.Lines(text) {
		_, isNameserver := keyword(line, "nameserver")
		_, isSearch := keyword(line, "search")
		line = lineText(line)
		if !isNameserver && !isSearch && line != Watermark && line != LegacyWatermark {
			kept = append(kept, line)
		}
	}
	return kept
}

// checkAnswering: the local nameserver answers.
func checkAnswering(t *testing.T, s State, p Plan) {
	t.Helper()
	next := after(s, p.Steps(true))
	if len(p.IfAnswering) > 0 {
		text := string(next.ResolvConf.Data)
		if !IsOurs(next.ResolvConf.Data) || next.ResolvConf.Link != "" || next.ResolvConf.Mode != 0o644 {
			t.Errorf("resolv.conf is not a regular file of ours: mode %v, link %q\n%s", next.ResolvConf.Mode, next.ResolvConf.Link, text)
		}
		if got := nameserverLines(t, text); !slices.Equal(got, []netip.Addr{p.Nameserver.Addr()}) {
			t.Errorf("resolv.conf names %v, want only %v", got, p.Nameserver)
		}
		kept := resolvconf.Parse(s.base().Data)
		kept.RemoveComment(resolvedComment)
		if s.keepsOriginal() && s.leadsToAdmins(s.Original) && len(resolvconf.Parse(s.Original.Data).Nameservers()) > 0 {
			kept.SetOptions(resolvconf.Parse(s.Original.Data).Options()) // an admin edits the file behind the link
		}
		if diff := cmp.Diff(others(string(kept.Bytes())), others(text)); diff != "" {
			t.Errorf("other lines changed: %s", diff)
		}
		if !p.knowsUpstream(&s) && !s.isOurs() {
			t.Error("resolv.conf points here without an upstream")
		}
		if !s.isOurs() && s.ResolvConf.Exists && !next.Original.Exists {
			t.Error("a resolv.conf was replaced but not saved")
		}
	}
	checkPointed(t, s, p, next)
	if gone := s.Original.Exists && !next.Original.Exists; gone && IsOurs(next.ResolvConf.Data) {
		t.Error("the saved original is gone although resolv.conf is ours")
	} else if s.Original.Exists && !gone && !s.isNewer() && (string(s.Original.Data) != string(next.Original.Data) || s.Original.Link != next.Original.Link) {
		t.Error("a saved original was overwritten")
	}
	if next.Original.Exists && IsOurs(next.Original.Data) && !IsOurs(s.Original.Data) {
		t.Error("a resolv.conf of ours was saved as the original")
	}
	next = followed(settled(next, p, true), true)
	if again := NewPlan(next).Steps(true); len(again) > 0 {
		t.Errorf("not idempotent: the second plan has\n%s", describe(p, again))
	}
}

// followed returns the state after the next run, if that changes only the node resolv.conf or the
// record: a restored original may have a different search list and different options. An admin's
// file whose place our file has taken also no longer lacks servers.
func followed(s State, answers bool) State {
	steps := NewPlan(s).Steps(answers)
	if !s.isOurs() && len(steps) == 1 && (steps[0].Path == s.Paths.NodeResolvConf || s.IsLacking() && steps[0].Path == s.Paths.Record) {
		return after(s, steps)
	}
	return s
}

// checkPointed: pods keep the address that resolv.conf named when they started. The daemon serves
// that address only because the record contains it.
func checkPointed(t *testing.T, s State, p Plan, next State) {
	t.Helper()
	if p.Hold != "" || s.Record.Err != nil {
		return
	}
	record, err := upstream.ParseRecord(next.Record.Data)
	if here := p.Nameserver.Addr().WithZone(""); err != nil || !slices.Contains(record.Pointed, here) {
		t.Errorf("resolv.conf names %v, but the record %v: %v", here, record.Pointed, err)
	}
	if before := lastGood(&s); p.Selection.Set.IsEmpty() && !before.Set.Equal(lastGood(&next).Set) {
		t.Errorf("nothing is selected, but last-good changes from %v to %v", before.Set, lastGood(&next).Set)
	}
}

// checkSilent: the local nameserver does not answer. Only a resolv.conf that is ours may be
// changed.
func checkSilent(t *testing.T, s State, p Plan) {
	t.Helper()
	next := after(s, p.Steps(false))
	if len(p.IfSilent) > 0 {
		if !s.isOurs() && !s.isEmptied() {
			t.Errorf("a resolv.conf that is not ours is changed\n%s", describe(p, p.IfSilent))
		}
		if IsOurs(next.ResolvConf.Data) {
			t.Errorf("the restored resolv.conf is ours\n%s", next.ResolvConf.Data)
		}
		if next.Original.Exists {
			t.Error("the saved original remains after the restore")
		}
		if next.ResolvConf.Link == "" && len(p.Selection.Set.ResolvConf()) > 0 && !namesAnother(s, string(next.ResolvConf.Data)) {
			t.Errorf("%v is known, but libc is left with\n%s", p.Selection.Set.Servers, next.ResolvConf.Data)
		}
	}
	next = followed(settled(next, p, false), false)
	if again := NewPlan(next).Steps(false); len(again) > 0 {
		t.Errorf("not idempotent while silent: the second plan has\n%s", describe(p, again))
	}
}

// settled returns the host one run later, if the first run restored the original. That file is then
// a source and may name other nameservers than last-good.
func settled(next State, p Plan, answers bool) State {
	if _, verdict := p.decide(answers); verdict == Restored && readsResolvConf(NewPlan(next)) {
		return after(next, NewPlan(next).Steps(answers))
	}
	return next
}

// namesAnother reports whether libc finds a nameserver other than node-dns.
func namesAnother(s State, text string) bool {
	for line := range strings.Lines(text) {
		rest, _ := keyword(line, "nameserver")
		word, _, _ := strings.Cut(strings.TrimLeft(strings.ReplaceAll(rest, "\t", " "), " "), " ")
		a, err := netip.ParseAddr(word)
		local := s.Net.IsLocal(a.Unmap()) && !a.IsLoopback() || slices.Contains(s.Placement().Listen, netip.AddrPortFrom(a, 53))
		if err == nil && !a.IsUnspecified() && !local {
			return true
		}
	}
	return false
}

func readsResolvConf(p Plan) bool {
	return p.Selection.Origin == upstream.ResolvConf || p.Selection.Origin == upstream.Resolved
}

func describe(p Plan, steps []Step) string {
	var text strings.Builder
	for _, step := range steps {
		text.WriteString(p.describe(step))
	}
	return text.String()
}
