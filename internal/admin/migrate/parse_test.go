package migrate

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// procUDP is output of Linux 6.1 on a little-endian machine, and procUDP6 is the same for IPv6.
const (
	procUDP = `   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  411: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 3735 2 00000000b0f2a2f5 0
  412: 64004D0A:0035 00000000:0000 07 00000000:00000300 00:00000000 00000000   999        0 3736 2 00000000b0f2a2f6 7
garbage
  413: 64004D0A 00000000:0000 07 00000000:00000300 00:00000000 00000000   999        0 3737 2 00000000b0f2a2f6 7
`
	procUDP6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   11: 00000000000000000000000001000000:0035 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 91 2 0 0
`
)

func TestParseSockets(t *testing.T) {
	if !isLittleEndian {
		t.Skip("the text is from a little-endian machine")
	}
	v4, err := parseSockets(strings.NewReader(procUDP), "udp")
	if err != nil {
		t.Fatal(err)
	}
	v6, err := parseSockets(strings.NewReader(procUDP6), "tcp")
	if err != nil {
		t.Fatal(err)
	}
	want := []socket{
		{proto: "udp", local: netip.MustParseAddrPort("127.0.0.1:53"), state: 7, inode: 3735},
		{proto: "udp", local: netip.MustParseAddrPort("10.77.0.100:53"), state: 7, unread: 0x300, inode: 3736},
		{proto: "tcp", local: netip.MustParseAddrPort("[::1]:53"), state: tcpListen, inode: 91},
	}
	if diff := cmp.Diff(want, append(v4, v6...), cmp.AllowUnexported(socket{}), cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseUnit(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"unified", "0::/system.slice/dnsmasq.service\n", "dnsmasq.service"},
		{"RHEL 8", "12:pids:/system.slice/x.service\n1:name=systemd:/system.slice/dnsmasq.service\n0::/\n", "dnsmasq.service"},
		{"a part of a unit", "0::/system.slice/containerd.service/kubepods/pod1\n", "containerd.service"},
		{"a container's own systemd", "0::/machine.slice/libpod-1.scope/init.scope\n", "init.scope"},
		{"a login", "0::/user.slice/user-0.slice/session-1.scope\n", "session-1.scope"},
		{"none", "0::/\n", ""},
		{"nothing", "", ""},
	} {
		if got := parseUnit(test.text); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestParseUnits(t *testing.T) {
	text := "Id=node-dns.service\nLoadState=loaded\nActiveState=inactive\nUnitFileState=disabled\nFragmentPath=/usr/lib/systemd/system/node-dns.service\nDropInPaths=\n\n" +
		"Id=dnsmasq.service\nLoadState=not-found\nActiveState=inactive\nUnitFileState=\n"
	want := map[string]Unit{
		"node-dns.service": {Load: "loaded", Active: "inactive", File: "disabled", Path: "/usr/lib/systemd/system/node-dns.service"},
		"dnsmasq.service":  {Load: "not-found", Active: "inactive"},
	}
	if diff := cmp.Diff(want, parseUnits(text, []string{"node-dns.service", "dnsmasq.service"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestHoldRules checks what the rules hold, and that they expire even if the process dies.
func TestHoldRules(t *testing.T) {
	got := holdRules([]netip.AddrPort{netip.MustParseAddrPort("10.0.0.7:53"), netip.MustParseAddrPort("[2001:db8::7]:53")})
	for _, want := range []string{
		"timeout 2s500ms", "held4 { 10.0.0.7 }", "held6 { 2001:db8::7 }", "ip daddr @held4 tcp dport 53 tcp flags & (syn | ack) == syn drop", "ip6 daddr @held6",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing %q in\n%s", want, got)
		}
	}
	if got := holdRules([]netip.AddrPort{netip.MustParseAddrPort("10.0.0.7:53")}); strings.Contains(got, "held6") {
		t.Errorf("got a set without addresses:\n%s", got)
	}
}

// TestSaved proves that a changed path is restored and that an unchanged one is not touched.
func TestSaved(t *testing.T) {
	became := map[string]func(path string) error{
		"nothing":     os.RemoveAll,
		"a file":      func(path string) error { os.RemoveAll(path); return os.WriteFile(path, []byte("other"), 0o600) },
		"a link":      func(path string) error { os.RemoveAll(path); return os.Symlink("elsewhere", path) },
		"as it was":   func(string) error { return nil },
		"another way": func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) },
	}
	for was, make := range map[string]func(path string) error{
		"absent": func(string) error { return nil },
		"file":   func(path string) error { return os.WriteFile(path, []byte("text\n"), 0o640) },
		"setuid": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte("text\n"), 0o755), os.Chmod(path, 0o755|os.ModeSetuid))
		},
		"empty": func(path string) error { return os.WriteFile(path, nil, 0o444) },
		"link":  func(path string) error { return os.Symlink("/run/nowhere", path) },
	} {
		for name, become := range became {
			root := t.TempDir()
			path := filepath.Join(root, "etc/x")
			if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o755), make(path)); err != nil {
				t.Fatal(err)
			}
			before, err := save(root, "/etc/x")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(path); err != nil && name == "another way" {
				continue
			}
			if was == "link" && name == "another way" {
				continue // the link is dangling
			}
			if err := become(path); err != nil {
				t.Fatal(err)
			}
			if err := before.restore(root); err != nil {
				t.Errorf("restoring a %s that became %s: %v", was, name, err)
			}
			after, err := save(root, "/etc/x")
			if err != nil {
				t.Fatal(err)
			}
			if was == "link" {
				before.Time, after.Time = time.Time{}, time.Time{}
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("restoring a %s that became %s (-before +after):\n%s", was, name, diff)
			}
		}
	}
}

// TestJournal proves that a journal is read back unchanged and that an invalid one is an error.
func TestJournal(t *testing.T) {
	root := t.TempDir()
	if j, err := ReadJournal(root); j != nil || err != nil {
		t.Errorf("got %v, %v without a journal", j, err)
	}
	h := node(hook, dnsmasqAt("10.0.0.7"), dnsNoneFile("[main]\ndns=none\n"))
	want := Journal{
		Version: journalVersion, Phase: Applying, Began: time.Unix(1700000000, 0).UTC(), Findings: Find(h), Steps: NewPlan(h, Find(h)).Steps, Done: 2,
		Saved:  []Saved{{Path: "/etc/x", Kind: "file", Mode: 0o755 | os.ModeSetuid, Data: []byte{0, 255, '\n'}, Time: time.Unix(5, 7).UTC()}},
		Before: []Answer{{Name: ".", Type: "NS", Rcode: "NOERROR"}},
	}
	if err := want.write(root); err != nil {
		t.Fatal(err)
	}
	got, err := ReadJournal(root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got, cmpopts.EquateComparable(netip.AddrPort{}, netip.Addr{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	path := filepath.Join(root, JournalFile)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("got mode %v, %v", info.Mode(), err)
	}
	for _, text := range []string{"", "{}", `{"version": 2}`, `{"version": 1, "done": 1}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if j, err := ReadJournal(root); err == nil {
			t.Errorf("%q was accepted: %+v", text, j)
		}
	}
}

// TestAsksItself proves that a resolv.conf, or a link to one, that names this node is restored only
// after the nameserver has started.
func TestAsksItself(t *testing.T) {
	for name, text := range map[string]string{"loopback": "nameserver 127.0.0.1\n", "another": "nameserver 192.0.2.53\n"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "mine"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, s := range []Saved{
			{Path: filepath.Join(dir, "resolv.conf"), Kind: "file", Data: []byte(text)},
			{Path: filepath.Join(dir, "resolv.conf"), Kind: "link", Target: "mine"},
			{Path: filepath.Join(dir, "resolv.conf"), Kind: "link", Target: filepath.Join(dir, "mine")},
		} {
			if got, want := asksItself([]Saved{s}), name == "loopback"; got != want {
				t.Errorf("%s, %s %s: got %v", name, s.Kind, s.Target, got)
			}
		}
	}
}
