package hostdns

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/lab"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nm"
)

func TestLook(t *testing.T) {
	w := newTree(t, map[string]string{
		etcResolvConf: generated, etcUpstreams: "server=10.0.0.2\n", etcNode: "nameserver 10.0.0.2\n",
		"/run/NetworkManager/resolv.conf": generated, "/run/systemd/resolve/resolv.conf": "nameserver 10.0.0.7\n",
		varOriginal: generated, varRecord: "{}\n", varFacts: "{}\n",
		"/etc/origin/node/node-config.yaml": "dnsDomain: k8s.example\nnodeIP: " + nodeIP + "\n",
	})
	w.snapshot = &nm.Snapshot{Version: "1.42.4"}
	event := nm.Event{Interface: "eth0", Action: "up"}
	s := w.runner().Looker.Look(t.Context(), event)
	if len(s.Problems) > 0 || s.ConfigErr != nil {
		t.Errorf("problems %q, %v", s.Problems, s.ConfigErr)
	}
	if s.NetworkManager == nil || s.NetworkManager.Version != "1.42.4" || s.Event.Action != "up" {
		t.Errorf("NetworkManager %+v, event %+v", s.NetworkManager, s.Event)
	}
	if got := s.Config.ClusterDomain.String(); got != "k8s.example." || s.Placement().Nameserver != addr(nodeIP) {
		t.Errorf("cluster domain %s, nameserver %v", got, s.Placement().Nameserver)
	}
	for name, f := range map[string]File{
		"resolv.conf": s.ResolvConf, "NetworkManager's": s.NetworkManagerConf, "uplinks": s.ResolvedUplinks, "upstreams": s.Upstreams,
		"node resolv.conf": s.NodeResolvConf, "original": s.Original, "record": s.Record, "facts": s.Facts,
	} {
		if !f.Exists || f.Err != nil || len(f.Data) == 0 || f.Mode != 0o644 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if !s.HasDnsmasqDir {
		t.Error("no /etc/dnsmasq.d")
	}
}

// TestLookAtNothing: an empty tree, no NetworkManager, no bus: still a State, and no problem that is none.
func TestLookAtNothing(t *testing.T) {
	for _, absent := range []error{nm.ErrNotRunning, nm.ErrNoBus} {
		looker := Looker{
			Paths:          NewPaths(t.TempDir()),
			NetworkManager: func(context.Context) (nm.Snapshot, error) { return nm.Snapshot{}, absent },
			Net:            func(context.Context) (netstate.State, error) { return host().Net, nil },
		}
		s := looker.Look(t.Context(), nm.Event{})
		if len(s.Problems) > 0 || s.NetworkManager != nil || s.HasDnsmasqDir || s.ResolvConf.Exists {
			t.Errorf("%v: %+v", absent, s)
		}
		if s.Config.ClusterDomain.String() != "cluster.local." {
			t.Errorf("cluster domain %v", s.Config.ClusterDomain)
		}
	}
}

func TestLookTellsWhatItCouldNot(t *testing.T) {
	w := newTree(t, map[string]string{"/etc/node-dns/node-dns.yaml": "listen: [\n"})
	w.mkdir(etcResolvConf)
	looker := w.runner().Looker
	looker.NetworkManager = func(context.Context) (nm.Snapshot, error) {
		return nm.Snapshot{}, errors.New("asking NetworkManager: odd")
	}
	looker.Net = func(context.Context) (netstate.State, error) {
		return netstate.State{}, errors.New("reading routes: no buffer space")
	}
	s := looker.Look(t.Context(), nm.Event{})
	all := strings.Join(s.Problems, "\n")
	for _, part := range []string{"asking NetworkManager: odd", "reading routes: no buffer space", "node-dns.yaml:", "reading /etc/resolv.conf: "} {
		if strings.Count(all, part) != 1 {
			t.Errorf("%q is not told once in:\n%s", part, all)
		}
	}
	if s.ConfigErr == nil || s.ResolvConf.Err == nil || NewPlan(s).Hold == "" {
		t.Errorf("configuration %v, file %v", s.ConfigErr, s.ResolvConf.Err)
	}
}

// TestHangingNetworkManager: stopped by SIGSTOP it never answers. The look goes on after 0.7 s, or when the run ends.
func TestHangingNetworkManager(t *testing.T) {
	hang := func(ctx context.Context) (nm.Snapshot, error) {
		<-ctx.Done()
		return nm.Snapshot{}, ctx.Err()
	}
	for name, limit := range map[string]time.Duration{"its own limit": time.Hour, "the run's": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			w := newTree(t, map[string]string{"/run/NetworkManager/resolv.conf": generated})
			looker := w.runner().Looker
			looker.NetworkManager = hang
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				start := time.Now()
				s := looker.Look(ctx, nm.Event{})
				if took := time.Since(start); took != min(limit, networkManagerTimeout) {
					t.Errorf("took %v", took)
				}
				if s.NetworkManager != nil || len(s.Problems) != 1 || len(s.Net.Addrs) == 0 {
					t.Errorf("problems %q", s.Problems)
				}
				if got := serverList(NewPlan(s)); got != sys {
					t.Errorf("falls back to %q", got)
				}
			})
		})
	}
}

// TestNoBus asks over a bus that is not there.
func TestNoBus(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+t.TempDir()+"/no-bus")
	if _, err := AskNetworkManager(t.Context()); !errors.Is(err, nm.ErrNoBus) {
		t.Errorf("got %v", err)
	}
}

func TestReadFile(t *testing.T) {
	w := newTree(t, map[string]string{
		"/file": "text", "/absolute": "-> /dir/target", "/relative": "-> dir/target", "/dangling": "-> /nowhere", "/below": "-> /file/x",
		"/dir/target": "behind", "/loop": "-> loop", "/empty": "", "/todir": "-> /dir",
	})
	w.chmod("/file", 0o640)
	for path, size := range map[string]int{"/full": maxFile, "/over": maxFile + 1} {
		w.put(path, strings.Repeat("x", size))
	}
	if err := syscall.Mkfifo(w.at("/fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path string
		want File
		err  string // part of it
	}{
		{path: "/file", want: File{Exists: true, Data: []byte("text"), Mode: 0o640}},
		{path: "/empty", want: File{Exists: true, Mode: 0o644}},
		{path: "/missing"},
		{path: "/file/below"},
		{path: "/absolute", want: File{Exists: true, Link: "/dir/target", Data: []byte("behind"), Mode: 0o777}},
		{path: "/relative", want: File{Exists: true, Link: "dir/target", Data: []byte("behind"), Mode: 0o777}},
		{path: "/dangling", want: File{Exists: true, Link: "/nowhere", Mode: 0o777}},
		{path: "/below", want: File{Exists: true, Link: "/file/x", Mode: 0o777}},
		{path: "/loop", want: File{Exists: true, Link: "loop", Mode: 0o777}, err: "too many levels of symbolic links"},
		{path: "/dir", want: File{Exists: true, Mode: 0o755}, err: "expected a regular file, got a directory"},
		{path: "/todir", want: File{Exists: true, Link: "/dir", Mode: 0o777}, err: "expected a regular file, got a directory"},
		{path: "/over", want: File{Exists: true, Mode: 0o644}, err: "larger than 1048576 bytes"},
		{path: "/full", want: File{Exists: true, Data: []byte(strings.Repeat("x", maxFile)), Mode: 0o644}},
		// open(2) waits there for somebody who writes: the hook hung, and with it the next activation.
		{path: "/fifo", want: File{Exists: true, Mode: 0o644}, err: "expected a regular file, got a FIFO"},
	}
	for _, test := range tests {
		t.Run(test.path, func(t *testing.T) {
			got := ReadFile(w.root, w.at(test.path))
			if (got.Err == nil) != (test.err == "") || got.Err != nil && !strings.Contains(got.Err.Error(), test.err) {
				t.Errorf("error %v, want %q", got.Err, test.err)
			}
			if !sameFile(got, test.want) {
				t.Errorf("%.200q\nwant %.200q", describeFile(got), describeFile(test.want))
			}
		})
	}
}

func describeFile(f File) string {
	return f.Mode.String() + " -> " + f.Link + " " + string(f.Data)
}

// TestUnreadableForUs: the daemon looks without root's rights.
func TestUnreadableForUs(t *testing.T) {
	w := newTree(t, map[string]string{"/file": "text", "/other": "text"})
	w.chmod("/file", 0)
	var got [2]File
	lab.AsNobody(func() { got = [2]File{ReadFile(w.root, w.at("/file")), ReadFile(w.root, w.at("/other"))} })
	if f := got[0]; !f.Exists || !errors.Is(f.Err, fs.ErrPermission) {
		t.Errorf("%+v", f)
	}
	if f := got[1]; !f.Exists || f.Err != nil {
		t.Errorf("what everybody may read: %+v", f)
	}
}

func TestShowChangesNothing(t *testing.T) {
	for _, silent := range []bool{false, true} {
		w := newTree(t, map[string]string{etcResolvConf: oursText, varOriginal: generated, etcUpstreams: "server=10.0.0.9\n"})
		w.silent = silent
		before := w.identities()
		p, silence := w.runner().Show(t.Context())
		if (silence != nil) != silent || len(p.Steps(!silent)) == 0 {
			t.Errorf("silence %v, steps %s", silence, describe(p, p.Steps(!silent)))
		}
		if p := w.runner().ShowRestore(t.Context(), true, false); len(p.Silent) != 2 {
			t.Errorf("restore would: %s", describe(p, p.Silent))
		}
		wantSame(t, "Show wrote", before, w.identities())
	}
}

// TestShowHeldAsksNobody: what a held plan would do does not depend on an answer.
func TestShowHeldAsksNobody(t *testing.T) {
	w := newTree(t, nil)
	runner := w.runner()
	runner.Applier.Answers = func(context.Context, netip.AddrPort, bool) (string, error) {
		t.Error("asked")
		return "", nil
	}
	if p, silence := runner.Show(t.Context()); p.Hold == "" || silence != nil {
		t.Errorf("hold %q, silence %v", p.Hold, silence)
	}
}
