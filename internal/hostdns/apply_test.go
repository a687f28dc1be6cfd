package hostdns

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/nm"
)

const (
	etcResolvConf = "/etc/resolv.conf"
	etcUpstreams  = "/etc/dnsmasq.d/origin-upstream-dns.conf"
	etcNode       = "/etc/origin/node/resolv.conf"
	varOriginal   = "/var/lib/node-dns/resolv.conf.orig"
	varRecord     = "/var/lib/node-dns/upstreams.json"
	varFacts      = "/var/lib/node-dns/node-config.json"
)

// TestApplyOrder: when a run probes the local nameserver, the upstreams are already captured and
// resolv.conf is still the old one.
func TestApplyOrder(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: generated})
	asked := 0
	runner := w.runner()
	runner.Applier.Answers = func(_ context.Context, nameserver netip.AddrPort, patient bool) (string, error) {
		asked++
		if nameserver.String() != nodeIP+":53" || patient {
			t.Errorf("probed %v, patient %v", nameserver, patient)
		}
		if got := w.read(etcUpstreams) + w.read(etcNode); got != "server=10.0.0.2\nserver=10.0.0.3\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nsearch example.com\n" {
			t.Errorf("captured before the probe:\n%s", got)
		}
		if got := w.read(etcResolvConf); got != generated {
			t.Errorf("resolv.conf is already\n%s", got)
		}
		return "", nil
	}
	_, result, err := runner.Apply(t.Context(), nm.Event{})
	if err != nil || asked != 1 {
		t.Errorf("got %d probes and error %v, want 1 and nil", asked, err)
	}
	want := strings.Join([]string{varFacts, varRecord, etcUpstreams, etcNode, varOriginal, etcResolvConf}, " ")
	if got := w.written(result); got != want {
		t.Errorf("written %s\nwant    %s", got, want)
	}
	if got := w.read(etcResolvConf); got != oursText {
		t.Errorf("resolv.conf:\n%s", got)
	}
	if got := w.read(varOriginal); got != generated {
		t.Errorf("original:\n%s", got)
	}
}

// TestPatience: a run waits for the local nameserver only if resolv.conf already points at it.
func TestPatience(t *testing.T) {
	for text, want := range map[string]bool{generated: false, oursText: true} {
		w := newTree(t, map[string]string{etcResolvConf: text, etcUpstreams: "server=10.0.0.2\n"})
		runner := w.runner()
		runner.Applier.Answers = func(_ context.Context, _ netip.AddrPort, patient bool) (string, error) {
			if patient != want {
				t.Errorf("patient %v for\n%s", patient, text)
			}
			return "", nil
		}
		if _, _, err := runner.Apply(t.Context(), nm.Event{}); err != nil {
			t.Error(err)
		}
	}
}

func TestApplyWritesOnlyWhatChanged(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: generated})
	w.snapshot = &nm.Snapshot{Mode: "default", RcManager: "symlink", Configs: []nm.DNSConfig{dnsConfig("eth0", sys, "example.com")}}
	if r := w.apply(); r.ResolvConf != Written {
		t.Fatalf("verdict %s", r.ResolvConf)
	}
	before := w.identities()
	if r := w.apply(); r.ResolvConf != Kept || len(r.Written) > 0 {
		t.Errorf("second run: %s, wrote %s", r.ResolvConf, w.written(r))
	}
	wantSame(t, "the second run touched files", before, w.identities())

	w.snapshot.Configs = []nm.DNSConfig{dnsConfig("eth0", "10.0.0.8", "example.com")}
	if r := w.apply(); r.ResolvConf != Kept || w.written(r) != varRecord+" "+etcUpstreams+" "+etcNode {
		t.Errorf("new upstreams: %s, wrote %s", r.ResolvConf, w.written(r))
	}
	now := w.identities()
	if now[etcResolvConf] != before[etcResolvConf] || now[varOriginal] != before[varOriginal] {
		t.Error("resolv.conf was written although only the upstreams changed")
	}

	w.snapshot.Configs = []nm.DNSConfig{dnsConfig("eth0", "10.0.0.8", "new.example")}
	if r := w.apply(); r.ResolvConf != Written || w.written(r) != etcNode+" "+etcResolvConf {
		t.Errorf("new search list: %s, wrote %s", r.ResolvConf, w.written(r))
	}
}

// TestVerdicts compares a run's verdict with what it did to resolv.conf.
func TestVerdicts(t *testing.T) {
	captured := map[string]string{etcUpstreams: "server=10.0.0.2\nserver=10.0.0.3\n"}
	faulty := func(w *tree) { w.put("/etc/node-dns/node-dns.yaml", "listen: [\n") }
	noSpace := func(w *tree) { w.mkdir("/etc/origin/node/.resolv.conf.node-dns-tmp") }
	tests := []struct {
		name   string
		text   string
		silent bool
		spoil  func(w *tree)
		want   Verdict
		after  string
	}{
		{name: "it answers", text: generated, want: Written, after: oursText},
		{name: "it answers, and the file is right", text: oursText, want: Kept, after: oursText},
		{name: "silent, and not ours", text: generated, silent: true, want: Waiting, after: generated},
		{name: "silent, and ours", text: oursText, silent: true, want: Restored, after: generated},
		{name: "faulty configuration", text: generated, want: Held, after: generated, spoil: faulty},
		{name: "faulty configuration, ours, it answers", text: oursText, want: Held, after: oursText, spoil: faulty},
		// These two rows failed: a run kept any address that our file named.
		{name: "faulty configuration, ours, silent", text: oursText, silent: true, want: Restored, after: generated, spoil: faulty},
		{name: "faulty configuration, ours, another address", text: ofAnotherNode, want: Written, after: oursText, spoil: faulty},
		{
			// Only the kubelet's nameservers would be missing, but node-dns does not point a host
			// here without them.
			name: "one upstream file cannot be written", text: generated, want: Held, after: generated, spoil: noSpace,
		},
		{
			// The host already points here, at an address that the node no longer has.
			name: "one upstream file cannot be written, ours, another address", text: ofAnotherNode, want: Written, after: oursText, spoil: noSpace,
		},
		{
			name: "one upstream file cannot be written, and the way back", text: oursText, silent: true, want: Restored, after: generated,
			spoil: noSpace,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newTree(t, captured)
			w.put(etcResolvConf, test.text)
			w.silent = test.silent
			if test.spoil != nil {
				test.spoil(w)
			}
			_, result, err := w.runner().Apply(t.Context(), nm.Event{})
			if result.ResolvConf != test.want {
				t.Errorf("got verdict %s, want %s", result.ResolvConf, test.want)
			}
			if got := w.read(etcResolvConf); got != test.after {
				t.Errorf("resolv.conf:\n%s", got)
			}
			if wantErr := strings.Contains(test.name, "cannot be written"); (err != nil) != wantErr {
				t.Errorf("error %v", err)
			}
			if (result.Silence != nil) != test.silent {
				t.Errorf("silence %v", result.Silence)
			}
		})
	}
}

// TestCaptureContinues: a file that cannot be written does not stop the others from being written.
func TestCaptureContinues(t *testing.T) {
	tests := []struct {
		name    string
		spoil   func(w *tree)
		written string
	}{
		{"a file where a directory should be", func(w *tree) { w.put("/var/lib/node-dns", "") }, etcUpstreams + " " + etcNode},
		{
			"a directory in the temporary file's place",
			func(w *tree) { w.mkdir("/etc/dnsmasq.d/.origin-upstream-dns.conf.node-dns-tmp") },
			varFacts + " " + varRecord + " " + etcNode,
		},
		{"the first one", func(w *tree) { w.mkdir("/var/lib/node-dns/.node-config.json.node-dns-tmp") }, varRecord + " " + etcUpstreams + " " + etcNode},
		{"the last one", func(w *tree) { w.mkdir("/etc/origin/node/.resolv.conf.node-dns-tmp") }, varFacts + " " + varRecord + " " + etcUpstreams},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newTree(t, map[string]string{etcResolvConf: generated})
			test.spoil(w)
			_, result, err := w.runner().Apply(t.Context(), nm.Event{})
			if err == nil || result.ResolvConf != Held || w.written(result) != test.written {
				t.Errorf("%s, wrote %s: %v", result.ResolvConf, w.written(result), err)
			}
			if got := w.read(etcResolvConf); got != generated {
				t.Errorf("resolv.conf:\n%s", got)
			}
			if _, err := os.Lstat(w.at(varOriginal)); err == nil {
				t.Error("the original was saved but not replaced")
			}
		})
	}
}

// TestTimeIsUp: a run that waited too long for the lock does not know whether the nameserver
// answers, and restores nothing.
func TestTimeIsUp(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: oursText, etcUpstreams: "server=10.0.0.2\n"})
	before := w.files()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	runner := w.runner()
	runner.Applier.Answers = nil // the default, Probe
	_, result, err := runner.Apply(ctx, nm.Event{})
	if !errors.Is(err, context.Canceled) || result.ResolvConf != Failed {
		t.Errorf("verdict %s, error %v", result.ResolvConf, err)
	}
	wantSame(t, "an ended run wrote", before, w.files())
}

// TestTimeIsUpWhileAsking: the deadline passes between the look and the nameserver's answer.
func TestTimeIsUpWhileAsking(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: oursText, etcUpstreams: "server=10.0.0.2\n"})
	ctx, cancel := context.WithCancel(t.Context())
	runner := w.runner()
	runner.Applier.Answers = func(ctx context.Context, _ netip.AddrPort, _ bool) (string, error) {
		cancel()
		return "", ctx.Err()
	}
	_, result, err := runner.Apply(ctx, nm.Event{})
	if !errors.Is(err, context.Canceled) || result.ResolvConf != Failed {
		t.Errorf("verdict %s, error %v", result.ResolvConf, err)
	}
	if got := w.read(etcResolvConf); got != oursText {
		t.Errorf("resolv.conf:\n%s", got)
	}
}
