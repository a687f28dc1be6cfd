package hostdns

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/test/lab"
)

const etcNodeConfig = "/etc/origin/node/node-config.yaml"

func facts(domain string) nodeconfig.Facts {
	return nodeconfig.Facts{File: etcNodeConfig, Kind: "NodeConfig", ClusterDomain: dnsname.MustParse(domain)}
}

// TestFactsPlan: which facts are written, and with which warnings.
func TestFactsPlan(t *testing.T) {
	const handed = "/var/lib/node-dns/node-config.json"
	known := func(f nodeconfig.Facts) option { return withConfig(func(c *nodeconfig.Config) { c.Facts = &f }) }
	takenFrom := func(why string) option {
		return withConfig(func(c *nodeconfig.Config) { c.FactsFile, c.FactsWanted = handed, why })
	}
	stands := func(f File) option { return func(s *State) { s.Facts = f } }
	corp := facts("corp.test")
	corpFile := file(string(corp.Bytes()))
	tests := []struct {
		name    string
		options []option
		writes  bool
		warning string // part of the first warning; "" if there is none
	}{
		{name: "the same", options: []option{known(corp), stands(corpFile)}},
		{name: "not written yet", options: []option{known(corp), stands(File{})}, writes: true},
		{name: "another domain", options: []option{known(corp), stands(file(string(facts("old.test").Bytes())))}, writes: true},
		{name: "damaged", options: []option{known(corp), stands(file("{"))}, writes: true},
		{name: "readable only by root", options: []option{known(corp), stands(File{Exists: true, Data: corpFile.Data, Mode: 0o600})}, writes: true},
		{name: "a link", options: []option{known(corp), stands(link("/elsewhere", string(corpFile.Data)))}, writes: true},
		{name: "no cluster's file exists", options: []option{known(nodeconfig.Facts{ClusterDomain: dnsname.MustParse("cluster.local")}), stands(File{})}, writes: true},
		{name: "without upstreams", options: []option{known(corp), stands(File{}), withoutDefaultRoute(), withResolvConf(File{})}, writes: true},
		{name: "unknown facts", options: []option{withConfig(func(c *nodeconfig.Config) { c.Facts = nil }), stands(corpFile)}},
		{name: "facts from an unknown source", options: []option{known(corp), stands(File{}), takenFrom("")}, warning: "no permission to read " + etcNodeConfig},
		{
			name: "another file reports no configuration", options: []option{known(nodeconfig.Facts{}), stands(File{}), takenFrom("")},
			warning: "the cluster's configuration cannot be read here; according to " + handed + " there is none",
		},
		{
			name: "wanted", options: []option{withConfig(func(c *nodeconfig.Config) { c.Facts, c.FactsWanted = nil, "none there" })},
			warning: `none there: run "origin-dns-dispatcher apply" as root to copy it for the daemon`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := host(append([]option{withResolvConf(file(generated))}, test.options...)...)
			p := NewPlan(s)
			next := after(s, p.Capture)
			if got := sameFile(s.Facts, next.Facts); got == test.writes {
				t.Errorf("got the steps\n%s", describe(p, p.Capture))
			}
			if test.writes && (string(next.Facts.Data) != string(s.Config.Facts.Bytes()) || next.Facts.Mode != 0o644 || next.Facts.Link != "") {
				t.Errorf("%q, mode %v, link %q", next.Facts.Data, next.Facts.Mode, next.Facts.Link)
			}
			if first := strings.Join(p.Warnings[:min(1, len(p.Warnings))], ""); (first == "") != (test.warning == "") || !strings.Contains(first, test.warning) {
				t.Errorf("warnings %q", p.Warnings)
			}
			checkLaws(t, s)
		})
	}
}

// TestFactsOfRestore: a permanent restore removes the facts, because they may be outdated when
// node-dns returns. A stop keeps them, because the daemon may not know its cluster domain without
// them.
func TestFactsOfRestore(t *testing.T) {
	for _, ifOurs := range []bool{false, true} {
		w := newTree(t, map[string]string{etcResolvConf: generated, etcNodeConfig: "dnsDomain: corp.test\n"})
		w.apply()
		before := w.read(varFacts)
		w.restore(ifOurs)
		_, err := os.Stat(w.at(varFacts))
		if exists := err == nil; exists != ifOurs {
			t.Errorf("ifOurs %v: %v", ifOurs, err)
		}
		w.apply()
		if got := w.read(varFacts); got != before {
			t.Errorf("ifOurs %v: afterwards\n%s", ifOurs, got)
		}
	}
}

// TestFactsHandedOver uses real files: root reads node-config.yaml, which no other user may read,
// and the daemon then knows the cluster domain. Both make the same plan.
func TestFactsHandedOver(t *testing.T) {
	if os.Geteuid() != 0 {
		lab.Skip(t, "needs root to read files that other users may not")
	}
	w := newTree(t, map[string]string{etcResolvConf: generated, etcNodeConfig: "dnsDomain: corp.test\n"})
	w.chmod(etcNodeConfig, 0o600)
	before := w.lookUnprivileged()
	if !before.Config.ClusterDomain.IsZero() || before.ConfigErr == nil || before.Config.FactsWanted == "" {
		t.Errorf("before: got cluster domain %v, facts wanted %q, error %v", before.Config.ClusterDomain, before.Config.FactsWanted, before.ConfigErr)
	}
	if p := NewPlan(before); p.Hold == "" {
		t.Errorf("got the search list %q", searchList(&before))
	}
	for _, domain := range []string{"corp.test", "other.test"} {
		w.put(etcNodeConfig, "dnsDomain: "+domain+"\n")
		w.apply()
		s := w.lookUnprivileged()
		if got := s.Config.ClusterDomain.Relative(); got != domain || s.ConfigErr != nil || s.Config.FactsWanted != "" {
			t.Errorf("%s: got %s, facts wanted %q, error %v", domain, got, s.Config.FactsWanted, s.ConfigErr)
		}
		if p := NewPlan(s); len(p.Steps(true)) > 0 {
			t.Errorf("%s: after root's run the daemon still plans\n%s", domain, describe(p, p.Steps(true)))
		}
		if !strings.Contains(w.read(etcResolvConf), "search "+domain+" ") {
			t.Errorf("%s: resolv.conf is\n%s", domain, w.read(etcResolvConf))
		}
		wantSame(t, "a second run", w.identities(), func() map[string]string { w.apply(); return w.identities() }())
	}
}

// lookUnprivileged looks at the tree without root's rights, as the daemon does.
func (w *tree) lookUnprivileged() (s State) {
	lab.AsNobody(func() { s = w.runner().Looker.Look(context.Background(), nm.Event{}) })
	return s
}
