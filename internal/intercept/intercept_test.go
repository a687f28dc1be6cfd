package intercept

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func TestParseRequest(t *testing.T) {
	for _, test := range []struct{ name, text, failure string }{
		{"both families", "intercept 10.96.0.10\nintercept fd00::a\nnode 10.0.0.5\nnode fd01::5\n", ""},
		{"link-local IPv4, as for NodeLocal DNSCache", "intercept 169.254.20.10\n", ""},
		{"NodeLocal DNSCache's own address", "translate fd00::10\ntranslate fd00::a\nnode fd01::5\n", ""},
		{"nothing", "", ""},
		{"comments and empty lines", "# why\n\n", ""},
		{"loopback", "intercept 127.0.0.1\n", "line 1: 127.0.0.1 is not a unicast address for pods"},
		{"unspecified", "intercept ::\n", "line 1: :: is not a unicast address for pods"},
		{"multicast", "intercept 224.0.0.251\n", "line 1: 224.0.0.251 is not a unicast address for pods"},
		{"link-local IPv6 without a zone", "intercept fe80::a\n", "line 1: fe80::a is not a unicast address for pods"},
		{"zone", "intercept fe80::a%eth0\n", "line 1: fe80::a%eth0 has a zone"},
		{"IPv4-mapped", "intercept ::ffff:10.96.0.10\n", "line 1: ::ffff:10.96.0.10 is not written as an IPv4 address"},
		{"no address", "# a\nintercept\n", `line 2: ParseAddr(""): unable to parse IP`},
		{"two addresses", "intercept 10.96.0.10 10.96.0.11\n", `line 1: ParseAddr("10.96.0.10 10.96.0.11"): unexpected character (at " 10.96.0.11")`},
		{"unknown word", "flush 10.96.0.10\n", `line 1: expected intercept, translate or node, got "flush"`},
		{"too many addresses", strings.Repeat("intercept 10.96.0.1\n", 9), ""}, // duplicates count once
		{"nine addresses", nine(), "line 9: expected at most 8 addresses"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := parseRequest([]byte(test.text))
			if got := errorText(err); got != test.failure {
				t.Fatalf("got the error %q, want %q", got, test.failure)
			}
			again, err := parseRequest(r.Format())
			if err != nil || !reflect.DeepEqual(again, r) {
				t.Errorf("Format and parseRequest turn %v into %v, %v", r, again, err)
			}
		})
	}
}

func nine() string {
	var b strings.Builder
	for i := range 9 {
		b.WriteString("intercept 10.96.0." + string(rune('1'+i)) + "\n")
	}
	return b.String()
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzParseRequest: every accepted request has valid, distinct addresses, and survives Format.
func FuzzParseRequest(f *testing.F) {
	f.Add([]byte("intercept 10.96.0.10\nnode 10.0.0.5\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRequest(data)
		if err != nil {
			return
		}
		if len(r.Addrs) > MaxAddrs || len(r.Nodes) > 2 {
			t.Fatalf("got %d addresses and %d nodes", len(r.Addrs), len(r.Nodes))
		}
		for _, a := range append(r.Addrs, r.Nodes...) {
			if Check(a) != nil {
				t.Fatalf("accepted %v", a)
			}
		}
		again, err := parseRequest(r.Format())
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("Format and parseRequest turn %v into %v, %v", r, again, err)
		}
	})
}

// TestReadRequest: the daemon's user owns the directory, and may put anything there.
func TestReadRequest(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "intercept")
	if r, err := ReadRequest(path); err != nil || r.Addrs != nil {
		t.Errorf("without a file: got %v, %v", r, err)
	}
	want := Request{Addrs: addrs("10.96.0.10"), Nodes: addrs("10.0.0.5")}
	if err := os.WriteFile(path, want.Format(), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := ReadRequest(path); err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("got %v, %v, want %v", r, err, want)
	}
	for _, test := range []struct {
		name string
		put  func(path string) error
	}{
		{"a link", func(path string) error { return os.Symlink("intercept", path) }},
		{"a FIFO", func(path string) error { return unix.Mkfifo(path, 0o644) }},
		{"a directory", func(path string) error { return os.Mkdir(path, 0o755) }},
		{"a large file", func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("# filler\n", 1000)), 0o644)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(test.name, " ", "-"))
			if err := test.put(path); err != nil {
				t.Fatal(err)
			}
			if r, err := ReadRequest(path); err == nil {
				t.Errorf("accepted it as %v", r)
			}
		})
	}
}

func TestState(t *testing.T) {
	all := func(Address) bool { return true }
	path := filepath.Join(t.TempDir(), "state.json")
	if s, err := ReadState(path); s != nil || err != nil || s.Intercepts(all) {
		t.Errorf("without a file: got %v, %v", s, err)
	}
	want := State{PID: 7, Owned: true, Addresses: []Address{
		{Address: addrs("10.96.0.10")[0], On: true, Mode: Local, Since: time.Unix(1, 0).UTC()},
		{Address: addrs("fd00::a")[0], Since: time.Unix(2, 0).UTC(), Why: "does not answer"},
	}}
	data, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := ReadState(path)
	if err != nil || !reflect.DeepEqual(*got, want) || !got.Intercepts(all) || got.Intercepts(func(a Address) bool { return a.Address.Is6() }) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if err := os.WriteFile(path, data[:20], 0o644); err != nil {
		t.Fatal(err)
	}
	if s, err := ReadState(path); err == nil {
		t.Errorf("accepted half a file as %v", s)
	}
}
