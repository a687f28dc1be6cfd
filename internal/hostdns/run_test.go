package hostdns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/upstream"
)

// TestLogLine: a run logs one line, with keys that tests and log searches rely on.
func TestLogLine(t *testing.T) {
	event := nm.Event{Interface: "eth0", IPInterface: "eth0", Action: "up", Nameservers: servers("10.0.0.2 " + nodeIP), Invalid: []string{`"x\ny"`}}
	tests := []struct {
		name  string
		spoil func(w *tree)
	}{
		{name: "written", spoil: func(w *tree) { w.put(etcResolvConf, "search a b c d e f\nnameserver 10.0.0.9\n") }},
		{name: "same", spoil: func(w *tree) { w.put(etcResolvConf, generated); w.apply() }},
		{name: "waiting", spoil: func(w *tree) { w.put(etcResolvConf, generated); w.silent = true }},
		{name: "restored", spoil: func(w *tree) { w.put(etcResolvConf, oursText); w.silent = true }},
		{name: "held", spoil: func(w *tree) { w.put("/etc/node-dns/node-dns.yaml", "listen: 10.0.0.1:x\n") }},
		{name: "held-ours", spoil: func(w *tree) {
			w.put(etcResolvConf, ofAnotherNode)
			w.put("/etc/node-dns/node-dns.yaml", "listen: 10.0.0.1:x\n")
		}},
		// Any nameserver counts: after a rollback it is dnsmasq.
		{name: "stranger", spoil: func(w *tree) { w.put(etcResolvConf, generated); w.version = "dnsmasq-2.90" }},
		{name: "anonymous", spoil: func(w *tree) { w.put(etcResolvConf, generated); w.version = "" }},
		{name: "routes", spoil: func(w *tree) {
			w.put(etcResolvConf, oursText)
			w.snapshot = &nm.Snapshot{Configs: []nm.DNSConfig{dnsConfig("eth0", "dns+tls://9.9.9.9#dns.quad9.net", ""), vpnConfig("tun0", "172.16.0.53", "~corp.example")}}
		}},
		{name: "error", spoil: func(w *tree) {
			w.put(etcResolvConf, generated)
			w.mkdir("/etc/origin/node/.resolv.conf.node-dns-tmp")
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newTree(t, nil)
			test.spoil(w)
			w.log.Reset()
			_, _, err := w.runner().Apply(t.Context(), event)
			if (err != nil) != (test.name == "error") {
				t.Error(err)
			}
			line := strings.ReplaceAll(w.log.String(), w.root, "")
			if strings.Count(line, "\n") != 1 {
				t.Errorf("got %q, want one line", line)
			}
			golden.Check(t, "testdata/log/"+test.name+".txt", line)
		})
	}
}

func TestLogLineOfRestore(t *testing.T) {
	for _, test := range []struct {
		name    string
		silent  bool
		version string
	}{
		{name: "restore", silent: true},
		// After a restore while node-dns ran, its next request pointed the file here again, and no
		// message warned about that.
		{name: "restore-while-running", version: "node-dns 1.0"},
		{name: "restore-to-dnsmasq", version: "dnsmasq-2.90"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTree(t, map[string]string{etcResolvConf: oursText, varOriginal: generated})
			w.silent, w.version = test.silent, test.version
			w.restore(true)
			w.restore(true)
			golden.Check(t, "testdata/log/"+test.name+".txt", strings.ReplaceAll(w.log.String(), w.root, ""))
		})
	}
}

// TestShowWarns: `plan` and `restore --dry-run` also report which program answers.
func TestShowWarns(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: oursText, varOriginal: generated})
	before := w.files()
	if p := w.runner().ShowRestore(t.Context(), true, false); !strings.HasPrefix(strings.Join(p.Warnings, "\n"), "node-dns is running") {
		t.Errorf("restore: got warnings %q", p.Warnings)
	}
	if p, silence := w.runner().Show(t.Context()); silence != nil || len(p.Warnings) > 0 {
		t.Errorf("plan: got silence %v, warnings %q", silence, p.Warnings)
	}
	w.version = "dnsmasq-2.90"
	if p := w.runner().ShowRestore(t.Context(), true, false); len(p.Warnings) > 0 {
		t.Errorf("restore: got warnings %q", p.Warnings)
	}
	if p, _ := w.runner().Show(t.Context()); strings.Join(p.Warnings, "\n") != "dnsmasq-2.90 answers on "+nodeIP+":53, not node-dns" {
		t.Errorf("plan: got warnings %q", p.Warnings)
	}
	wantSame(t, "showing wrote", before, w.files())
}

// TestRunOvertaken: an admin's resolv.conf that was written between a run's look and its write was
// lost. A busy machine took a second between the two.
func TestRunOvertaken(t *testing.T) {
	for _, row := range []struct {
		name, before string
		silent       bool
		want         string // resolv.conf after the run
	}{
		{"while ours replaces another", "nameserver 10.0.0.8\n", false, ourManual},
		{"while ours is restored", Watermark + "\nsearch cluster.local\nnameserver 192.168.122.7\n", false, ourManual},
		{"while the original comes back", "nameserver 10.0.0.8\n", true, manual},
		{"while the original's link comes back", "-> resolv.mine", true, manual},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newTree(t, map[string]string{etcResolvConf: row.before, "/etc/resolv.mine": "nameserver 10.0.0.8\n"})
			if row.silent {
				w.apply()
				w.silent = true
			}
			runner, written := w.runner(), false
			runner.Applier.Writer.Step = func(step string) {
				if _, err := os.Lstat(w.at("/etc/.resolv.conf.node-dns-tmp")); step == "rename" && err == nil && !written {
					written = true
					w.remove(etcResolvConf)
					w.put(etcResolvConf, manual)
				}
			}
			if _, _, err := runner.Apply(t.Context(), nm.Event{}); err != nil || !written {
				t.Errorf("error %v, written %v", err, written)
			}
			if got := w.read(etcResolvConf); got != row.want {
				t.Errorf("got resolv.conf\n%s\nwant\n%s", got, row.want)
			}
			w.silent = true
			w.apply()
			if got := w.read(etcResolvConf); got != manual {
				t.Errorf("in the end resolv.conf is\n%s", got)
			}
		})
	}
}

// TestRunOvertakenLooksAgain: the second plan of an overtaken run used what the first look had
// found. A loopback address in the newer file became an upstream although nothing listens there,
// and the backoff that an admin had ended continued.
func TestRunOvertakenLooksAgain(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: "nameserver 10.0.0.8\n"})
	w.apply()
	for range 6 { // starts a backoff
		w.put(etcResolvConf, "nameserver 10.0.0.8\n# tool\n")
		w.apply()
	}
	runner, written := w.runner(), false
	runner.ByHand = true
	runner.Applier.Writer.Step = func(step string) {
		if _, err := os.Lstat(w.at("/etc/.resolv.conf.node-dns-tmp")); step == "rename" && err == nil && !written {
			written = true
			w.put(etcResolvConf, "nameserver 127.0.0.99\nnameserver 10.0.0.9\n")
		}
	}
	p, r, err := runner.Apply(t.Context(), nm.Event{})
	if err != nil || !written || r.ResolvConf != Written || p.Hold != "" {
		t.Errorf("error %v, overtaken %v, resolv.conf %s, hold %q", err, written, r.ResolvConf, p.Hold)
	}
	if got := fmt.Sprint(p.Selection.Set.Servers); got != "[10.0.0.9]" {
		t.Errorf("the upstreams are %s", got)
	}
}

// TestRestoreOvertaken: an edit of ours that came while the original was restored was lost, because
// the history that tells an edit was removed first.
func TestRestoreOvertaken(t *testing.T) {
	const original = "search corp.example\nnameserver 10.0.0.8\n"
	for _, row := range []struct{ name, old, new string }{
		{"nameserver", "nameserver " + nodeIP, "nameserver 10.0.0.9"},
		{"search list", "corp.example", "new.example"},
	} {
		results := map[bool]string{}
		for _, isLate := range []bool{false, true} {
			w := newTree(t, map[string]string{etcResolvConf: original})
			w.apply()
			edit := func() { w.put(etcResolvConf, strings.Replace(w.read(etcResolvConf), row.old, row.new, 1)) }
			runner := w.runner()
			if !isLate {
				edit()
			}
			runner.Applier.Writer.Step = func(step string) {
				if _, err := os.Lstat(w.at("/etc/.resolv.conf.node-dns-tmp")); isLate && step == "rename" && err == nil {
					isLate = false
					edit()
				}
			}
			if _, _, err := runner.Restore(t.Context(), true); err != nil {
				t.Error(err)
			}
			results[len(results) > 0] = w.read(etcResolvConf)
		}
		if results[false] != results[true] || !strings.Contains(results[true], strings.TrimPrefix(row.new, "nameserver ")) {
			t.Errorf("%s: an edit before a restore leaves %q, one meanwhile %q", row.name, results[false], results[true])
		}
	}
}

// TestEditAfterUpdate: after an update whose history has another version, an edit of our file was
// lost, because nothing had written the file since.
func TestEditAfterUpdate(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: "search corp.example\nnameserver 10.0.0.8\n"})
	w.apply()
	w.put("/run/origin-dns-dispatcher/rewrites.json", strings.Replace(w.read("/run/origin-dns-dispatcher/rewrites.json"), `"version": 2`, `"version": 1`, 1))
	w.apply()
	w.put(etcResolvConf, strings.Replace(w.read(etcResolvConf), "corp.example", "new.example", 1))
	w.apply()
	w.silent = true
	w.apply()
	if got := w.read(etcResolvConf); got != "search new.example\nnameserver 10.0.0.8\n" {
		t.Errorf("resolv.conf is %q", got)
	}
}

// TestRunOvertakenAgainAndAgain: a run ends, and reports a program that does not stop writing.
func TestRunOvertakenAgainAndAgain(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: manual})
	runner, n := w.runner(), 0
	runner.Applier.Writer.Step = func(step string) {
		if _, err := os.Lstat(w.at("/etc/.resolv.conf.node-dns-tmp")); step == "rename" && err == nil {
			n++
			w.put(etcResolvConf, fmt.Sprintf("nameserver 10.0.0.%d\n", n))
		}
	}
	if _, r, err := runner.Apply(t.Context(), nm.Event{}); !errors.Is(err, errNewer) || r.ResolvConf != Failed || w.read(etcResolvConf) != "nameserver 10.0.0.4\n" {
		t.Errorf("%v, %s, resolv.conf %q", err, r.ResolvConf, w.read(etcResolvConf))
	}
}

// TestRunWithoutLog: a nil Log disables logging.
func TestRunWithoutLog(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: generated})
	runner := w.runner()
	runner.Log = nil
	if _, result, err := runner.Apply(t.Context(), nm.Event{}); err != nil || result.ResolvConf != Written {
		t.Errorf("%s: %v", result.ResolvConf, err)
	}
}

// TestRunNeedsLock: a run that does not get the lock in time changes nothing and reports that.
func TestRunNeedsLock(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: generated})
	unlock, err := Lock(t.Context(), w.paths.Lock)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	before := w.files()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, result, err := w.runner().Apply(ctx, nm.Event{Action: "up"})
	if !errors.Is(err, context.Canceled) || result.ResolvConf != Failed {
		t.Errorf("%s: %v", result.ResolvConf, err)
	}
	if line := w.log.String(); !strings.Contains(line, "level=ERROR") || !strings.Contains(line, "waiting for another run to end") {
		t.Errorf("log: %s", line)
	}
	wantSame(t, "a run without the lock wrote", before, w.files())
}

// TestRunLetsGoOfLock: the next run does not wait, regardless of the result of the previous one.
func TestRunLetsGoOfLock(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: generated})
	w.apply()
	w.restore(false)
	if _, err := os.Lstat(w.paths.Lock); err != nil {
		t.Errorf("the lock file: %v", err)
	}
	unlock, err := Lock(t.Context(), w.paths.Lock)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// TestStory follows a node in one tree: each event ends in the right state.
func TestStory(t *testing.T) {
	const empty = "# Generated by NetworkManager\n"
	const renewed = "# Generated by NetworkManager\nsearch example.com\nnameserver 10.0.0.8\n"
	w := newTree(t, map[string]string{etcResolvConf: empty})
	w.snapshot = &nm.Snapshot{Mode: "default", RcManager: "symlink"}
	lan, vpn := dnsConfig("eth0", sys, "example.com"), vpnConfig("tun0", "172.16.0.53", "~corp.example")
	// says sets NetworkManager's current configuration. NetworkManager always writes its own file,
	// and /etc/resolv.conf when that changes.
	says := func(file string, configs ...nm.DNSConfig) {
		w.put("/run/NetworkManager/resolv.conf", file)
		w.snapshot.Configs = configs
	}
	writes := func(file string) { w.remove(etcResolvConf); w.put(etcResolvConf, file) }

	w.silent = true
	says(empty)
	w.step("the first dhcp4-change, nothing is known yet", Held, "", empty)
	says(generated, lan)
	writes(generated)
	w.step("up, and the daemon is not there yet", Waiting, sys, generated)
	w.silent = false
	w.step("the daemon answers", Written, sys, oursText)
	writes(generated)
	w.step("NetworkManager rewrites the file", Written, sys, oursText)
	says(generated, vpn, lan)
	w.step("a VPN comes", Kept, sys+" corp.example.=172.16.0.53", oursText)
	says(renewed, dnsConfig("eth0", "10.0.0.8", "example.com"))
	w.step("the VPN goes, and the lease is renewed", Kept, "10.0.0.8", oursText)
	says(empty)
	w.step("carrier loss", Kept, "10.0.0.8", oursText)
	says(renewed, dnsConfig("eth0", "10.0.0.8", "example.com"))
	w.step("carrier", Kept, "10.0.0.8", oursText)
	w.snapshot = nil
	w.step("NetworkManager stops", Kept, "10.0.0.8", oursText)
	w.silent = true
	w.step("the daemon dies", Restored, "10.0.0.8", renewed)
	w.silent = false
	w.step("and is back", Written, "10.0.0.8", oursText)
	if r := w.restore(true); r.ResolvConf != Restored || w.read(etcResolvConf) != renewed {
		t.Errorf("uninstalled: %s\n%s", r.ResolvConf, w.read(etcResolvConf))
	}
}

// step is one run of the story, with its verdict, the captured upstreams and resolv.conf.
func (w *tree) step(name string, verdict Verdict, upstreams, resolvConf string) {
	w.t.Helper()
	r := w.apply()
	s := w.look()
	got := fmt.Sprintf("%s\n%s\n%s", r.ResolvConf, serverList(Plan{Selection: upstream.Selection{Set: Captured(s.Upstreams, s.Record).Set}}), w.read(etcResolvConf))
	if diff := cmp.Diff(fmt.Sprintf("%s\n%s\n%s", verdict, upstreams, resolvConf), got); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", name, diff)
	}
	if again := w.apply(); len(again.Written) > 0 {
		w.t.Errorf("%s: a second run wrote %s", name, w.written(again))
	}
}

// holderEnv names the lock that a child of the test holds until the test kills it.
const holderEnv = "HOSTDNS_TEST_HOLD"

func holdLock(path string) int {
	if _, err := Lock(context.Background(), path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("held")
	io.Copy(io.Discard, os.Stdin) // until the test kills this process or ends
	return 0
}

func TestLockSerialisesRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "lock")
	var inside, runs atomic.Int32
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			unlock, err := Lock(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d runs at a time", n)
			}
			runtime.Gosched()
			runs.Add(1)
			inside.Add(-1)
			unlock()
		})
	}
	wait.Wait()
	if n := runs.Load(); n != 8 {
		t.Errorf("%d runs", n)
	}
}

func TestLockOfKilledProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	holder := exec.Command("/proc/self/exe")
	holder.Env = append(os.Environ(), holderEnv+"="+path)
	holder.Stderr = os.Stderr
	holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "held\n" {
		t.Fatalf("got %q from the holder: %v", line, err)
	}

	short, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := Lock(short, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the lock is held, and Lock returned %v", err)
	}

	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := holder.Wait(); err == nil {
		t.Error("the holder was not killed")
	}
}

func TestLockRefuses(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.Symlink(target, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		want       error
	}{
		{"a link, which another user may have put there", filepath.Join(dir, "link"), syscall.ELOOP},
		{"a directory", dir, syscall.EISDIR},
		{"below a file", filepath.Join(dir, "file", "lock"), syscall.ENOTDIR},
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Lock(t.Context(), test.path); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link was followed: %v", err)
	}
}

func TestLockOfEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// A free lock is still taken: the holder decides what to do with the remaining time.
	unlock, err := Lock(ctx, filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
