package nodeconfig

import (
	"bytes"
	"os"
	"slices"
	"testing"
)

func TestAddList(t *testing.T) {
	shipped, err := os.ReadFile("../../packaging/node-dns.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, text string
		ok         bool
	}{
		{"no file", "", true},
		{"as shipped", string(shipped), true},
		{"comments alone", "# listen: auto\n", true},
		{"no newline at the end", "cacheSize: 5000", true},
		{"multi-line string at the end", "routes:\n- domain: |\n    a.example\n", true},
		{"a tab", "cacheSize:\t5000\n", true},
		{"key present", "listen: auto\n", false},
		{"quoted key present", "\"listen\": auto\n", false},
		{"braces", "{cacheSize: 5000}\n", false},
		{"braces after a space", " {cacheSize: 5000}\n", false},
		{"indented", "  cacheSize: 5000\n", false},
		{"a list", "- cacheSize\n", false},
		{"document end marker", "cacheSize: 5000\n...\n", false},
		{"two documents", "cacheSize: 5000\n---\ncacheSize: 6000\n", false},
		{"invalid YAML", "cacheSize: [\n", false},
		{"unterminated quote", "cacheSize: \"5000\n", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			added, ok := AddList([]byte(test.text), "A test's.", "listen", []string{"auto", "192.0.2.1", "fd00::1", "::"})
			if ok != test.ok {
				t.Fatalf("%v, want %v:\n%s", ok, test.ok, added)
			}
			if !ok {
				return
			}
			keys, parses := keysOf(added)
			if !parses || keys[len(keys)-1] != "listen" || !bytes.HasPrefix(added, []byte(test.text)) {
				t.Errorf("keys %q:\n%s", keys, added)
			}
		})
	}
}

// FuzzAddList: the result has the old settings and the new key, and nothing else.
func FuzzAddList(f *testing.F) {
	for _, text := range []string{"", "a: 1", "a: |\n  x\n", " a: 1\n", "{}", "--- \na: 1\n", "a: &x [1]\nb: *x\n", "? a\n: 1\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		added, ok := AddList(data, "A test's.", "listen", []string{"192.0.2.7", "fd00::1"})
		if !ok {
			return
		}
		before, err := parseNodeDNS("f", bytes.NewReader(data))
		if err != nil {
			return
		}
		after, err := parseNodeDNS("f", bytes.NewReader(added))
		if err != nil {
			t.Fatalf("%q: %v", added, err)
		}
		if len(after.Listen.Addrs) != 2 || after.Listen.Auto {
			t.Errorf("%q: listen %v", added, after.Listen)
		}
		if !slices.Equal(before.Upstreams, after.Upstreams) || before.CacheSize != after.CacheSize || before.ClusterDomain != after.ClusterDomain || before.NodeIP != after.NodeIP {
			t.Errorf("%q has other settings than %q", added, data)
		}
	})
}
