package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

// TestAgreed: the cluster domain served after each look. "" means unknown.
func TestAgreed(t *testing.T) {
	type look struct {
		domain string
		faulty bool
		wanted string // FactsWanted
		serves string
		again  bool
	}
	tests := []struct {
		name  string
		start string
		looks []look
	}{
		{"nothing changes", "a.test", []look{{domain: "a.test", serves: "a.test"}}},
		{"a change counts when two looks agree", "a.test", []look{
			{domain: "b.test", serves: "a.test", again: true},
			{domain: "b.test", serves: "b.test"},
		}},
		// Happened when node-dns.yaml was rewritten in place: it was empty for a moment, and all
		// defaults took effect.
		{"a file that is being written", "a.test", []look{
			{domain: "cluster.local", serves: "a.test", again: true},
			{domain: "b.test", serves: "a.test", again: true},
			{domain: "b.test", serves: "b.test"},
		}},
		{"changes and reverts", "a.test", []look{
			{domain: "b.test", serves: "a.test", again: true},
			{domain: "a.test", serves: "a.test"},
			{domain: "b.test", serves: "a.test", again: true},
		}},
		{"a faulty file changes nothing", "a.test", []look{
			{domain: "b.test", faulty: true, serves: "a.test"},
			{domain: "b.test", faulty: true, serves: "a.test"},
			{domain: "", faulty: true, serves: "a.test"},
		}},
		{"outdated facts change nothing", "a.test", []look{
			{domain: "b.test", wanted: "it has changed", serves: "a.test"},
			{domain: "b.test", wanted: "it has changed", serves: "a.test"},
			{domain: "b.test", serves: "a.test", again: true},
			{domain: "b.test", serves: "b.test"},
		}},
		{"unknown, then known", "", []look{
			{domain: "", faulty: true, wanted: "no facts", serves: "", again: true},
			{domain: "", faulty: true, wanted: "no facts", serves: ""},
			{domain: "b.test", serves: "", again: true},
			{domain: "b.test", serves: "b.test"},
		}},
		{"unknown, then outdated facts are used", "", []look{
			{domain: "b.test", wanted: "it has changed", serves: "", again: true},
			{domain: "b.test", wanted: "it has changed", serves: "b.test"},
		}},
		{"unknown, then a file with unrelated faults", "", []look{
			{domain: "b.test", faulty: true, serves: "", again: true},
			{domain: "b.test", faulty: true, serves: "b.test"},
		}},
	}
	config := func(domain, wanted string) nodeconfig.Config {
		c := nodeconfig.Config{FactsWanted: wanted}
		if domain != "" {
			c.ClusterDomain = dnsname.MustParse(domain)
		}
		return c
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var a agreed
			running, again := config(test.start, ""), false
			for i, l := range test.looks {
				seen := &view.Host{Config: config(l.domain, l.wanted)}
				if l.faulty {
					seen.ConfigErr = errors.New("a fault")
				}
				running, again = a.next(running, seen)
				if running.ClusterDomain.Relative() != l.serves || again != l.again {
					t.Errorf("look %d: serves %q, again %v; want %q, %v", i+1, running.ClusterDomain.Relative(), again, l.serves, l.again)
				}
			}
		})
	}
}

// TestServesNothingUnknown: while the cluster domain is unknown there is no listener, whatever is
// configured.
func TestServesNothingUnknown(t *testing.T) {
	config := policytest.Config(t, "listen: all\nupstreams: [192.0.2.53]\nclusterDNS: [172.30.0.10]\n", "dnsBindAddress: 127.0.0.1:53\n")
	known := policy.New(policy.Inputs{Config: config, Net: policytest.Node()})
	if len(known.Listen) != 3 || len(known.Routes) != 3 {
		t.Fatalf("listens on %v, routes %v", known.Listen, known.Routes)
	}
	config.ClusterDomain = nodeconfig.Config{}.ClusterDomain
	got := policy.New(policy.Inputs{Config: config, Net: policytest.Node(), Listen: known.Listen})
	if len(got.Listen)+len(got.Routes)+len(got.Apexes)+len(got.Candidates) > 0 {
		t.Errorf("serves %+v", got)
	}
	if len(got.Problems) != 1 || !strings.Contains(got.Problems[0], "the cluster domain is unknown") {
		t.Errorf("problems %q", got.Problems)
	}
}

// TestUnknownDomain: a node with an unreadable cluster domain does not resolve and reports why.
// Once the domain is known, it resolves.
func TestUnknownDomain(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	const nodeConfig = "/etc/origin/node/node-config.yaml"
	log := new(lab.Text)
	r := launch(t, map[string]string{upstreamPath: upstreamFile(site), nodeConfig: "dnsDomain: corp..test\n"}, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	r.await("the daemon is up", func() bool { return r.status().PID != 0 })
	status := r.status()
	if status.Ready || len(status.Listeners) > 0 || status.Cluster.Domain != "" {
		t.Errorf("status %+v", status)
	}
	for _, want := range []string{"not listening while the cluster domain is unknown", "node-config.yaml:1:12: dnsDomain"} {
		if !strings.Contains(strings.Join(status.Problems, "\n"), want) {
			t.Errorf("problems %q, want %q", status.Problems, want)
		}
	}
	if _, err := os.Stat(filepath.Join(r.root, "/run/node-dns/ready")); err == nil {
		t.Error("the status is ready")
	}
	write(t, filepath.Join(r.root, nodeConfig), "dnsDomain: corp.test\n")
	r.await("the daemon listens", func() bool { return len(r.status().Listeners) > 0 })
	if m := dnstest.Exchange(t, r.address(), "web.corp.test.", dns.TypeA); m.Rcode != dns.RcodeServerFailure {
		t.Errorf("a cluster name: %v", m)
	}
	write(t, filepath.Join(r.root, nodeConfig), "dnsDomain: other.test\n")
	r.await("the daemon follows", func() bool { return r.status().Cluster.Domain == "other.test." })
	if m := dnstest.Exchange(t, r.address(), "web.other.test.", dns.TypeA); m.Rcode != dns.RcodeServerFailure {
		t.Errorf("a cluster name: %v", m)
	}
	for _, cluster := range []string{"web.corp.test.", "web.other.test."} {
		if n := site.QueriesFor(cluster, dns.TypeA); n != 0 {
			t.Errorf("the site's nameserver received %[2]d queries for %[1]s", cluster, n)
		}
	}
	at := 0 // position in the log; the conditions must appear in this order
	for _, condition := range []string{
		"condition=config-fault", "condition=problem", "condition=not-ready", // it starts
		"condition=config-taken-over", "condition=ready", "condition=problem-solved", "condition=config-taken-over",
	} {
		_, after, found := strings.Cut(log.String()[at:], " "+condition+"\n")
		if !found {
			t.Fatalf("the log has no %s after %q:\n%s", condition, log.String()[:at], log)
		}
		at = len(log.String()) - len(after)
	}
}

// TestWanted: when the privileged half is asked to read the cluster's file for the daemon, whether
// the daemon listens or not.
func TestWanted(t *testing.T) {
	d := looksOnly(t, t.TempDir(), "")
	d.build(new(policy.Policy))
	t.Cleanup(d.resolver.Close)
	facts, credentials := d.paths.host.Facts, d.paths.host.Kubeconfig
	tests := []struct {
		name   string
		config nodeconfig.Config
		found  nodeconfig.Kubeconfig
		reason string
		want   []string
	}{
		{"read here", nodeconfig.Config{}, nodeconfig.Kubeconfig{Original: "/k", Use: "/k"}, startReason, nil},
		{"needed", nodeconfig.Config{FactsWanted: "why"}, nodeconfig.Kubeconfig{}, "time", []string{facts}},
		{"needed, at the start", nodeconfig.Config{FactsWanted: "why", FactsFile: facts}, nodeconfig.Kubeconfig{}, startReason, []string{facts}},
		{"read for us, at the start", nodeconfig.Config{FactsFile: facts}, nodeconfig.Kubeconfig{}, startReason, []string{facts}},
		{"read for us", nodeconfig.Config{FactsFile: facts}, nodeconfig.Kubeconfig{}, "time", nil},
		{"credentials needed", nodeconfig.Config{}, nodeconfig.Kubeconfig{Original: "/k", Use: "/k", Wanted: "why"}, "time", []string{credentials}},
		{"credentials handed over", nodeconfig.Config{}, nodeconfig.Kubeconfig{Original: "/k", Use: credentials}, "time", nil},
		{"credentials handed over, at the start", nodeconfig.Config{}, nodeconfig.Kubeconfig{Original: "/k", Use: credentials}, startReason, []string{credentials}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			seen := &view.Host{State: hostdns.State{Paths: d.paths.host, Config: test.config}}
			if got := newFollower(d).wanted(seen, test.found, test.reason); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// TestWantedWhereNothingIsSeen: at boot NetworkManager's last event came 4 ms before the daemon
// listened. An /etc/resolv.conf of mode 0600 then named a nameserver that did not answer, until the
// next event.
func TestWantedWhereNothingIsSeen(t *testing.T) {
	d := looksOnly(t, t.TempDir(), "")
	f := newFollower(d)
	d.build(new(policy.Policy))
	t.Cleanup(d.resolver.Close)
	if err := d.server.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.server.Shutdown(context.Background()) })
	here, elsewhere := d.view.Listening()[0], netip.MustParseAddrPort("192.0.2.1:53")
	denied := &fs.PathError{Op: "open", Path: "/etc/resolv.conf", Err: fs.ErrPermission}
	for _, step := range []struct {
		name string
		at   netip.AddrPort
		err  error
		want []string
	}{
		{"node-dns does not answer yet", elsewhere, denied, nil},
		{"node-dns starts to answer", here, denied, []string{d.paths.host.ResolvConf}},
		{"the hook has looked", here, denied, nil},
		{"another address", elsewhere, denied, nil},
		{"the address is back", here, denied, []string{d.paths.host.ResolvConf}},
		{"the address is gone again", elsewhere, nil, nil},
		{"back, and readable", here, nil, nil},
	} {
		seen := &view.Host{State: hostdns.State{Paths: d.paths.host, ResolvConf: hostdns.File{Exists: true, Err: step.err}}}
		seen.Plan.Nameserver = step.at
		if got := f.wanted(seen, nodeconfig.Kubeconfig{}, "again"); !slices.Equal(got, step.want) {
			t.Errorf("%s: got %v, want %v", step.name, got, step.want)
		}
	}
}

// TestRecursive: an unreadable file of nameservers was silently treated as empty.
func TestRecursive(t *testing.T) {
	t.Parallel()
	const list = "nameserver 192.0.2.7\nnameserver 0.0.0.0\nnameserver 2001:db8::7\n"
	const key = "ignoring dnsRecursiveResolvConf /etc/origin/node/node-config.yaml:1: "
	tests := []struct {
		name    string
		path    string
		make    func(path string) error
		servers string
		problem string // FILE stands for the path
	}{
		{name: "none"},
		{name: "node-dns's list of captured servers", path: "/etc/origin/node/resolv.conf", make: text("nameserver 192.0.2.7\n")},
		{name: "the host's resolv.conf", path: "/etc/resolv.conf", make: text("nameserver 192.0.2.7\n")},
		{
			// It only names this node.
			name: "a copy of our resolv.conf", path: "/etc/dns/up.conf",
			make: text(hostdns.Watermark + "\nnameserver 192.0.2.10\n"),
		},
		{name: "an admin's file", path: "/etc/dns/up.conf", make: text(list), servers: "192.0.2.7,2001:db8::7"},
		{name: "missing", path: "/etc/dns/up.conf", problem: key + "FILE does not exist"},
		{name: "without a nameserver", path: "/etc/dns/up.conf", make: text("# none\n"), problem: key + "FILE lists no nameserver"},
		{
			name: "a FIFO", path: "/etc/dns/up.conf", make: func(path string) error { return unix.Mkfifo(path, 0o644) },
			problem: key + "opening FILE: expected a regular file, got a FIFO",
		},
		{
			name: "readable only by root", path: "/etc/dns/up.conf", make: func(path string) error { return errors.Join(text(list)(path), os.Chmod(path, 0)) },
			problem: key + "open FILE: permission denied",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := lab.OpenDir(t)
			d := looksOnly(t, root, "")
			config := nodeconfig.Config{Sources: map[string]nodeconfig.Source{}}
			path := filepath.Join(root, test.path)
			if test.path != "" {
				config.DNSRecursiveResolvConf = path
				config.Sources["dnsRecursiveResolvConf"] = nodeconfig.Source{File: "/etc/origin/node/node-config.yaml", Line: 1}
			}
			if test.make != nil {
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), test.make(path)); err != nil {
					t.Fatal(err)
				}
			}
			lab.AsNobody(func() {
				servers, problem := d.recursive(config)
				var words []string
				for _, server := range servers {
					words = append(words, server.String())
				}
				got := []string{strings.Join(words, ","), strings.ReplaceAll(problem, path, "FILE")}
				if diff := cmp.Diff([]string{test.servers, test.problem}, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
			config.ClusterDomain = dnsname.MustParse("corp.test")
			d.build(&policy.Policy{Config: config})
			defer d.resolver.Close()
			if test.path != "" && !slices.Contains(d.watchedFiles(), path) {
				t.Errorf("changes of %s are not detected", path)
			}
		})
	}
}

func text(text string) func(path string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }
}
