package hostdns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/upstream"
)

// TestResolvedStory is a node with systemd-resolved and without NetworkManager. Its link gets other
// nameservers while resolv.conf is ours. They were not captured until an admin restored the stub.
func TestResolvedStory(t *testing.T) {
	const (
		target  = "../run/systemd/resolve/stub-resolv.conf"
		uplinks = "/run/systemd/resolve/resolv.conf"
	)
	w := newTree(t, map[string]string{etcResolvConf: "-> " + target, "/run/systemd/resolve/stub-resolv.conf": stubText, uplinks: "nameserver 10.0.0.2\n"})
	w.step("the first run", Written, "10.0.0.2", stubOurs)
	w.put(uplinks, "nameserver 10.0.0.8\nnameserver 10.0.0.9\n")
	w.step("a lease is renewed", Kept, "10.0.0.8 10.0.0.9", stubOurs)
	w.put(uplinks, "nameserver "+nodeIP+"\nnameserver 10.0.0.8\n")
	w.step("systemd-resolved reads our resolv.conf", Kept, "10.0.0.8", stubOurs)
	w.put(uplinks, "# no links\n")
	w.step("carrier loss", Kept, "10.0.0.8", stubOurs)
	w.remove(uplinks)
	w.step("systemd-resolved is gone", Kept, "10.0.0.8", stubOurs)
	w.put(uplinks, "nameserver 10.0.0.2\n")
	w.silent = true
	w.step("the daemon dies", Restored, "10.0.0.2", stubText)
	if got := w.files()[etcResolvConf]; got != "-> "+target {
		t.Errorf("got %q after the restore", got)
	}
}

const (
	dropInPath  = "/run/systemd/resolved.conf.d/90-node-dns.conf"
	uplinksPath = "/run/systemd/resolve/resolv.conf"
	stubPath    = "/run/systemd/resolve/stub-resolv.conf"
	stubTarget  = "../run/systemd/resolve/stub-resolv.conf"
	nodeDNSPath = "/etc/node-dns/node-dns.yaml"
)

// resolvedUplinks returns the uplinks file that systemd-resolved writes when it reads the drop-in:
// the servers and search domains of its files, then those of the links. ours is the address that
// the drop-in may have named before.
func resolvedUplinks(before string, dropIn []byte, ours string) string {
	d, _ := parseDropIn(dropIn)
	var servers, search string
	if d.Server.IsValid() {
		servers = "nameserver " + d.Server.String() + "\n"
		for _, domain := range d.Domains {
			if !strings.HasPrefix(domain, "~") {
				search += " " + domain
			}
		}
	}
	for line := range strings.Lines(before) {
		if rest, ok := strings.CutPrefix(line, "search"); ok {
			for domain := range strings.FieldsSeq(rest) {
				if domain != "cluster.local" && !strings.Contains(search+" ", " "+domain+" ") {
					search += " " + domain
				}
			}
		} else if line != "nameserver "+ours+"\n" && !strings.Contains(servers, line) {
			servers += line
		}
	}
	if search != "" {
		servers += "search" + search + "\n"
	}
	return servers
}

// tellResolved makes the fake systemd-resolved read the drop-in.
func (w *tree) tellResolved(context.Context) error {
	if w.resolved++; w.resDeaf != nil {
		return w.resDeaf
	}
	text, _ := os.ReadFile(w.paths.DropIn)
	w.remove(uplinksPath)
	w.put(uplinksPath, resolvedUplinks(w.links, text, nodeIP))
	return nil
}

// newResolvedTree is a host whose resolv.conf is the stub and whose link has a nameserver and a
// domain.
func newResolvedTree(t *testing.T, config string) *tree {
	w := newTree(t, map[string]string{etcResolvConf: "-> " + stubTarget, stubPath: stubText, nodeDNSPath: config})
	w.setLinks("nameserver 10.0.0.2\nsearch example.com\n")
	return w
}

// setLinks changes the links' servers, which systemd-resolved writes at once.
func (w *tree) setLinks(text string) {
	w.t.Helper()
	told := w.resolved
	w.links = text
	if err := w.tellResolved(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.resolved = told
}

func (w *tree) dropIn() string {
	text, _ := os.ReadFile(w.paths.DropIn)
	return strings.TrimPrefix(string(text), DropInWatermark+"\n")
}

// want checks the drop-in below its first line ("" if there is none) and how often systemd-resolved
// was notified so far.
func (w *tree) want(name string, verdict Verdict, upstreams, dropIn string, told int) {
	w.t.Helper()
	w.step(name, verdict, upstreams, stubText)
	if got := w.dropIn(); got != dropIn || w.resolved != told {
		w.t.Errorf("%s: got %d notifications, want %d; the drop-in is\n%s\nwant\n%s", name, w.resolved, told, got, dropIn)
	}
	if target := w.files()[etcResolvConf]; target != "-> "+stubTarget {
		w.t.Errorf("%s: resolv.conf is %q", name, target)
	}
}

func asks(addr, domains string) string {
	return "[Resolve]\nDNS=\nDNS=" + addr + "\nDomains=\nDomains=" + domains + "\n"
}

// TestViaResolved follows a host where systemd-resolved queries this node. resolv.conf never
// changes.
func TestViaResolved(t *testing.T) {
	w := newResolvedTree(t, "resolvConf: resolved\nroutes: [{domain: corp.example.com, servers: [10.9.9.9]}]\n")
	w.put("/etc/systemd/resolved.conf", "[Resolve]\nDNS=10.0.0.9\nDomains=site.example ~lab.example\n")
	usual := asks(nodeIP, "cluster.local site.example ~lab.example ~. ~example.com ~corp.example.com")
	w.silent = true
	w.want("nobody answers", Waiting, "10.0.0.9 10.0.0.2", "", 0)
	w.silent = false
	w.want("it answers", Written, "10.0.0.9 10.0.0.2", usual, 1)
	w.setLinks("nameserver 10.0.0.8\nsearch example.com\n")
	w.want("a lease is renewed", Kept, "10.0.0.9 10.0.0.8", usual, 1)
	w.setLinks("nameserver 10.0.0.8\n")
	w.want("the link has no domain any more", Kept, "10.0.0.9 10.0.0.8", usual, 1)
	w.setLinks("# no links\n")
	w.want("carrier loss", Kept, "10.0.0.9", usual, 1)
	w.setLinks("nameserver 10.0.0.8\nsearch example.com vpn.example\n")
	w.want("a further domain", Written, "10.0.0.9 10.0.0.8",
		asks(nodeIP, "cluster.local site.example ~lab.example ~. ~example.com ~corp.example.com ~vpn.example"), 2)
	w.silent = true
	w.want("the daemon dies", Restored, "10.0.0.9 10.0.0.8", "", 3)
	w.silent = false
	usual = asks(nodeIP, "cluster.local site.example ~lab.example ~. ~example.com ~vpn.example ~corp.example.com")
	w.want("it is back", Written, "10.0.0.9 10.0.0.8", usual, 4)
	w.put(nodeDNSPath, "resolvConf: [\n")
	w.want("a faulty configuration", Held, "10.0.0.9 10.0.0.8", usual, 4)
	w.put(nodeDNSPath, "resolvConf: resolved\n")
	if r := w.restore(true); r.ResolvConf != Restored || w.dropIn() != "" || w.resolved != 5 {
		t.Errorf("restore: got %+v, %d notifications, drop-in %q", r, w.resolved, w.dropIn())
	}
	if r := w.restore(true); r.ResolvConf != Held || len(r.Written) > 0 || w.resolved != 5 {
		t.Errorf("second restore: got %+v, %d notifications", r, w.resolved)
	}
}

// TestResolvConfChanges changes resolvConf from each value to each other one, and back.
func TestResolvConfChanges(t *testing.T) {
	stub := "-> " + stubTarget
	for _, from := range []string{"file", "resolved", "auto", "none"} {
		for _, to := range []string{"file", "resolved", "auto", "none"} {
			t.Run(from+" to "+to, func(t *testing.T) {
				w := newResolvedTree(t, "")
				for _, via := range []string{from, to, from} {
					w.put(nodeDNSPath, "resolvConf: "+via+"\n")
					w.apply()
					if again := w.apply(); len(again.Written) > 0 {
						t.Errorf("%s: a second run wrote %s", via, w.written(again))
					}
					want := map[string][2]string{
						"file": {"0644 ours", ""}, "none": {stub, ""},
						"resolved": {stub, asks(nodeIP, "cluster.local ~. ~example.com")}, "auto": {stub, asks(nodeIP, "cluster.local ~. ~example.com")},
					}[via]
					file := w.files()[etcResolvConf]
					if IsOurs([]byte(w.read(etcResolvConf))) {
						file = "0644 ours"
					}
					if diff := cmp.Diff(want, [2]string{file, w.dropIn()}); diff != "" {
						t.Errorf("%s (-want +got):\n%s", via, diff)
					}
				}
				if s := w.look(); serverList(Plan{Selection: upstream.Selection{Set: Captured(s.Upstreams, s.Record).Set}}) != "10.0.0.2" {
					t.Errorf("captured %s", s.Upstreams.Data)
				}
			})
		}
	}
}

// TestResolvedInterrupted: if a run ends after it wrote a file but before it notified
// systemd-resolved, the next run does so.
func TestResolvedInterrupted(t *testing.T) {
	w := newResolvedTree(t, "resolvConf: resolved\n")
	w.resDeaf = errors.New("systemd does not answer")
	if _, _, err := w.runner().Apply(t.Context(), nm.Event{Action: "apply"}); !errors.Is(err, w.resDeaf) || w.dropIn() == "" {
		t.Errorf("got %v, drop-in %q", err, w.dropIn())
	}
	w.resDeaf = nil
	w.want("it is told now", Written, "10.0.0.2", asks(nodeIP, "cluster.local ~. ~example.com"), 2)
	w.resDeaf, w.silent = errors.New("systemd does not answer"), true
	if _, _, err := w.runner().Apply(t.Context(), nm.Event{Action: "apply"}); !errors.Is(err, w.resDeaf) || w.dropIn() != "[Resolve]\n" {
		t.Errorf("got %v, drop-in %q", err, w.dropIn())
	}
	w.resDeaf = nil
	w.want("it is told to forget us now", Restored, "10.0.0.2", "", 4)
}

// TestResolvedNotHeeded: node-dns does not keep restarting a systemd-resolved that does not follow
// the drop-in.
func TestResolvedNotHeeded(t *testing.T) {
	w := newResolvedTree(t, "resolvConf: resolved\n")
	r := w.runner()
	r.Applier.TellResolved = func(context.Context) error { w.resolved++; return nil }
	for range 20 {
		if _, _, err := r.Apply(t.Context(), nm.Event{Action: "apply"}); err != nil {
			t.Fatal(err)
		}
	}
	if w.resolved != 1+conflictRewrites {
		t.Errorf("got %d notifications", w.resolved)
	}
	if p, _ := r.Show(t.Context()); !p.RewriteLoop || !strings.HasPrefix(p.Hold, dropInPath+" keeps being removed or has no effect; next try after ") {
		t.Errorf("hold %q", p.Hold)
	}
}

// TestHoldResolved: a change that would have no effect, or break all names, is not made but
// reported.
func TestHoldResolved(t *testing.T) {
	for _, row := range []struct {
		name, config string
		files        map[string]string
		hold         string
	}{
		{"resolv.conf is another program's", "resolved", map[string]string{etcResolvConf: "nameserver 10.0.0.2\n"}, "it does not point to systemd-resolved, but resolvConf: resolved requires that"},
		{"a drop-in of another program", "auto", map[string]string{dropInPath: "[Resolve]\nDNS=10.0.0.1\n"}, dropInPath + " was not written by node-dns"},
		{"one that is read later", "auto", map[string]string{"/etc/systemd/resolved.conf.d/99.conf": "[Resolve]\nDNS=10.0.0.1\n"}, "systemd-resolved would ignore " + dropInPath + ": /etc/systemd/resolved.conf.d/99.conf is read later and sets DNS="},
		{"all over TLS", "resolved", map[string]string{"/etc/systemd/resolved.conf": "[Resolve]\nDNSOverTLS=yes\n"}, "systemd-resolved would query this node over TLS because of DNSOverTLS=yes in /etc/systemd/resolved.conf"},
		{"no upstream", "resolved", map[string]string{uplinksPath: "# none\n"}, "no upstream nameserver is known"},
		{"none", "none", nil, "resolvConf: none in /etc/node-dns/node-dns.yaml"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newResolvedTree(t, "resolvConf: "+row.config+"\n")
			for path, text := range row.files {
				w.remove(path)
				w.put(path, text)
			}
			before := w.files()[etcResolvConf]
			p, r, err := w.runner().Apply(t.Context(), nm.Event{Action: "apply"})
			if err != nil || r.ResolvConf != Held || p.Hold != row.hold || w.resolved > 0 || w.files()[etcResolvConf] != before {
				t.Errorf("got %v, %v, %d notifications, hold\n%q, want\n%q", r, err, w.resolved, p.Hold, row.hold)
			}
			if complete := row.config == "none"; p.Complete(nil) != complete {
				t.Errorf("complete: %v", !complete)
			}
		})
	}
}

// TestLawsViaResolved checks the common invariants against random hosts with every value of
// resolvConf.
func TestLawsViaResolved(t *testing.T) {
	hosts := uint64(2000)
	if testing.Short() || lab.RaceEnabled { // make test runs all without -race
		hosts = 200
	}
	for seed := range hosts {
		s := randomHost(seed)
		d := dice{rand.New(rand.NewPCG(seed, 254))}
		s.Config.ResolvConf = pick(d, nodeconfig.ResolvConfFile, nodeconfig.ResolvConfResolved, nodeconfig.ResolvConfAuto, nodeconfig.ResolvConfNone)
		if d.IntN(3) > 0 {
			s.ResolvConf = link(stubTarget, stubText)
		}
		on := DropIn{Server: addr(pick(d, nodeIP, "10.0.0.2")), Domains: []string{"cluster.local", "~."}}
		s.DropIn = pick(d, File{}, file(string(on.Bytes())), file(string(DropIn{}.Bytes())), file("[Resolve]\nDNS=10.0.0.1\n"))
		s.ResolvedSays = pick(d, nil, &ResolvedConf{}, &ResolvedConf{Domains: []string{"a.example", "~."}}, &ResolvedConf{Over: "x"})
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { checkViaResolved(t, s) }) {
			return
		}
	}
}

func checkViaResolved(t *testing.T, s State) {
	t.Helper()
	p := NewPlan(s)
	known := s
	known.Net = assumed(&s)
	checkUpstreams(t, known, p)
	answering, silent := after(s, p.Steps(true)), after(s, p.Steps(false))
	asked, _ := parseDropIn(answering.DropIn.Data)
	switch {
	case p.Hold == LeftToAdmin:
		if answering.hasDropIn() || answering.isOurs() && len(restoreSteps(&s)) > 0 {
			t.Errorf("resolvConf is none, but this node is named")
		}
	case p.Hold != "" || !p.Nameserver.IsValid() || s.NetErr != nil:
	case p.Via == nodeconfig.ResolvConfResolved:
		if asked.Server != p.Nameserver.Addr() || answering.isOurs() || !answering.resolvedAsks(asked.Server) {
			t.Errorf("systemd-resolved does not query this node, or resolv.conf is still ours:\n%s\n%s", answering.DropIn.Data, answering.ResolvConf.Data)
		}
	default:
		if answering.hasDropIn() || !answering.isOurs() {
			t.Errorf("resolv.conf is not ours, or the drop-in still names this node")
		}
	}
	if silent.hasDropIn() {
		t.Errorf("nothing answers, but systemd-resolved queries\n%s", silent.DropIn.Data)
	}
	if foreign := s.DropIn.Exists && !s.hasDropIn(); foreign && (string(answering.DropIn.Data) != string(s.DropIn.Data) || string(silent.DropIn.Data) != string(s.DropIn.Data)) {
		t.Errorf("another program's drop-in was changed")
	}
	for _, answers := range []bool{true, false} {
		if s.NetErr != nil {
			break // the removed files were the only source for the node's addresses
		}
		next := settled(after(s, p.Steps(answers)), p, answers)
		if second := NewPlan(next); second.Via != p.Via { // with auto: the stub that an older original was has been restored
			next = after(next, second.Steps(answers))
		}
		next = followed(next, answers)
		if again := NewPlan(next).Steps(answers); len(again) > 0 {
			t.Errorf("not idempotent, answers %v: the second plan has\n%s", answers, describe(p, again))
		}
	}
	restore := newRestorePlan(s, true)
	if given := after(s, restore.Steps(false)); given.hasDropIn() {
		t.Errorf("restored, but systemd-resolved queries\n%s", given.DropIn.Data)
	}
}
