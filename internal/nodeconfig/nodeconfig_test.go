package nodeconfig

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestText tests the effects of text editors, copies and templates on a file. want is the cluster
// domain or the error.
func TestText(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{"empty", "", "cluster.local."},
		{"comments only", "# nothing\n\n  # here\n", "cluster.local."},
		{"null document", "---\n...\n", "cluster.local."},
		{"null value", "dnsDomain:\n", "cluster.local."},
		{"empty value, as oc writes it", `dnsDomain: ""`, "cluster.local."},
		{"no final newline", "dnsDomain: a.example", "a.example."},
		{"final dot and capitals", "dnsDomain: A.Example.\n", "a.example."},
		{"CRLF", "kind: NodeConfig\r\ndnsDomain: a.example\r\nmtu: 5\r\n", "a.example."},
		{"byte order mark", "\ufeffdnsDomain: a.example\n", "a.example."},
		{"document start and end", "---\ndnsDomain: a.example\n...\n", "a.example."},
		{"empty second document", "dnsDomain: a.example\n---\n", "a.example."},
		{"JSON", `{"kind": "NodeConfig", "dnsDomain": "a.example"}`, "a.example."},
		{"tab before a comment", "dnsDomain: a.example\t# ours\n", "a.example."},
		{"quoted key", `"dnsDomain": 'a.example'`, "a.example."},
		{"alias", "x: &d a.example\ndnsDomain: *d\n", "a.example."},
		{"merge", "x: &b {dnsDomain: a.example}\n<<: *b\n", "a.example."},
		{"merge of several: the first wins", "x: [&a {dnsDomain: a.example}, &b {dnsDomain: b.example}]\n<<: [*a, *b]\n", "a.example."},
		{"own key before a merged one", "x: &b {dnsDomain: b.example}\n<<: *b\ndnsDomain: a.example\n", "a.example."},
		{"merge of itself", "x: &b\n  <<: *b\n  dnsDomain: a.example\n<<: *b\n", "a.example."},
		{"merge of a string", "<<: text\n", `f:1:5: <<: expected a mapping to merge in, got "text"`},
		{"list as a key", "? [a]\n: b\ndnsDomain: a.example\n", "a.example."},
		{"alias cycle", "x: &x [*x]\ndnsDomain: *x\n", "f:2:12: dnsDomain: expected a domain name such as cluster.local, got a list"},
		{"duplicate unknown keys", "x: 1\nx: 2\n", "cluster.local."},
		{"scalar document", "hello\n", `f:1:1: expected a mapping of keys to values, got "hello"`},
		{"column counts characters", "{x: 'äöü', dnsIP: 'ä'}\n", `f:1:19: dnsIP: expected an IP address, got "ä"`},
		{"Latin-1", "x: 1\ny: \xe4\n", "f:2:4: expected text in UTF-8, got the byte 0xe4"},
		{"UTF-16", "\xff\xfed\x00", "f:1:1: expected text in UTF-8, got the byte 0xff"},
		{"NUL", "dnsDomain: a.example\nx: \x00\n", `f:2:4: expected valid YAML, got "control characters are not allowed"`},
		{"byte order mark before an error", "\ufeff\tx: 1\n", "f:1:1: expected spaces to indent with, got a tab"},
		{"unknown directive", "%YAML 9.9\n---\nx: 1\n", `f:1:9: expected valid YAML, got "found incompatible YAML document"`},
		{"apiVersion as a number", "apiVersion: 1\n", "f:1:13: apiVersion: expected v1, got the number 1"},
		{"long text is truncated", "dnsIP: " + strings.Repeat("x", 5000), `f:1:8: dnsIP: expected an IP address, got "` + strings.Repeat("x", maxQuoted) + `"…`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parseNodeConfig("f", strings.NewReader(tt.text))
			got := c.ClusterDomain.String()
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			checkConfig(t, c, err)
			checkError(t, err)
		})
	}
}

// TestBombs are small files that become large if they are read without limits. Without one of the
// limits, the test hangs or fills the memory.
func TestBombs(t *testing.T) {
	lines := func(n int, line string) string { return strings.Repeat(line, n) }
	merges := "a0: &a0 {x: 1}\n"
	for _, digit := range "123456789" {
		before := string(digit - 1)
		merges += "a" + string(digit) + ": &a" + string(digit) + " {<<: [" + lines(9, "*a"+before+",") + "]}\n"
	}
	tests := []struct {
		name, text, want string
	}{
		{"billion laughs in a list of servers", "listen: &a [a,a,a,a]\nroutes: &b [*a,*a,*a,*a]\nupstreams: [" + lines(64, "*b,") + "]", "upstreams[63]"},
		{"routes of one large route", "routes:\n- &r {domain: a.example, servers: [" + lines(65, "10.0.0.1,") + "]}\n" + lines(999, "- *r\n"), "at most 64 entries"},
		{"too many routes", "routes: [&r {domain: a.example, servers: [10.0.0.1]}," + lines(1001, "*r,") + "]", "at most 1000 entries, got 1002"},
		{"merges of merges", merges + "<<: *a9\n", "a known key"},
		{"too many keys", "routes:\n- {<<: {" + lines(1, "x: 1,") + manyKeys(2000) + "}}\n", "at most 1000 keys"},
		{"unknown keys", manyLines(5000), "at most 100 errors in a file, got more"},
		{"deep", lines(20_000, "["), "exceeded max depth"},
		{"large", "#" + lines(maxFile, "x"), "f:1:1: expected a file of at most 1 MiB, got a larger one"},
		{"error at the end of a long file", lines(1<<16, "#\n") + "\tx", "f:65537:1: expected spaces"},
	}
	_, err := parseNodeConfig("f", strings.NewReader("x: &x '"+lines(500_000, "1,")+"'\nkubeletArguments: {cluster-dns: ["+lines(60, "*x,")+"]}\n"))
	if got := Faults(err); len(got) != maxServers+1 || got[0].Got != "more" {
		t.Errorf("a flag with many values: %.200v", err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parseNodeDNS("f", strings.NewReader(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %.2000v\nwant %s", err, tt.want)
			}
			checkConfig(t, c, err)
			checkError(t, err)
		})
	}
}

func manyKeys(n int) string { return strings.ReplaceAll(manyLines(n), "\n", ",") }

func manyLines(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("k" + strings.Repeat("i", i%50) + strings.Repeat("j", i/50) + ": 1\n")
	}
	return b.String()
}

// TestBadKeysAreForgotten has a file with one good and one bad entry for each key. Only completely
// valid keys count.
func TestBadKeysAreForgotten(t *testing.T) {
	c, err := parseNodeDNS("f", strings.NewReader(
		"upstreams: [10.0.0.2, nonsense]\nlisten: [10.0.0.5, nonsense]\nroutes: [{domain: a.example, servers: [10.0.0.2]}, nonsense]\ncacheSize: 5\n"))
	if got := len(Faults(err)); got != 3 {
		t.Errorf("%d faults: %v", got, err)
	}
	want := defaults()
	want.CacheSize = 5
	want.Files = []string{"f"}
	want.Sources = map[string]Source{"cacheSize": {"f", 4}}
	if asJSON(t, c) != asJSON(t, want) {
		t.Errorf("got %s", asJSON(t, c))
	}
}

func TestLogLevel(t *testing.T) {
	for text, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	} {
		c, err := parseNodeDNS("f", strings.NewReader("logLevel: "+text))
		if err != nil || c.LogLevel != want {
			t.Errorf("%s: %v, %v", text, c.LogLevel, err)
		}
	}
}

// TestExample checks the example file: it has each key with its default, and each of its examples
// is valid.
func TestExample(t *testing.T) {
	path := filepath.Join("..", "..", "packaging", "node-dns.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	asIs, err := parseNodeDNS(path, strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if len(asIs.Sources) != 0 {
		t.Errorf("the example sets %v", asIs.Sources)
	}

	c, err := parseNodeDNS(path, strings.NewReader(uncomment(string(text))))
	if err != nil {
		t.Fatal(err)
	}
	checkConfig(t, c, err)
	for _, key := range nodeDNSKeys {
		paths := []string{key.name}
		for _, below := range key.keys {
			paths = append(paths, key.name+"."+below.name)
		}
		for _, path := range paths[min(len(key.keys), 1):] {
			if _, ok := c.Sources[path]; !ok {
				t.Errorf("the example lacks %s", path)
			}
		}
	}
	d := defaults()
	for name, pair := range map[string][2]any{
		"listen":        {c.Listen, d.Listen},
		"clusterDomain": {c.ClusterDomain.String(), d.ClusterDomain.String()},
		"cacheSize":     {c.CacheSize, d.CacheSize},
		"dnsForwardMax": {c.DNSForwardMax, d.DNSForwardMax},
		"serveStale":    {c.ServeStale, d.ServeStale},
		"prefetch":      {c.Prefetch, d.Prefetch},
		"domainNeeded":  {c.DomainNeeded, d.DomainNeeded},
		"logLevel":      {c.LogLevel, d.LogLevel},
		"dbus":          {c.DBus, d.DBus},
		"resolvConf":    {c.ResolvConf, d.ResolvConf},
		"metrics":       {c.Metrics.Address.String() + string(c.Metrics.Namespace), d.Metrics.Address.String() + string(d.Metrics.Namespace)},
	} {
		if diff := cmp.Diff(pair[1], pair[0], cmp.Comparer(func(a, b Listen) bool {
			return a.Auto == b.Auto && a.All == b.All && len(a.Addrs) == len(b.Addrs)
		})); diff != "" {
			t.Errorf("%s is not the default (-want +got):\n%s", name, diff)
		}
	}
}

// uncomment removes the "#" of lines that begin with a key, and of the indented lines below them.
func uncomment(text string) string {
	var b strings.Builder
	inKey := false
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "#")
		isKey := ok && rest[0] != ' ' && rest[0] != '\n'
		if inKey = isKey || inKey && ok && strings.HasPrefix(rest, "  "); inKey {
			line = rest
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestNearest(t *testing.T) {
	names := []string{"listen", "upstreams", "cacheSize", "clusterDNS", "clusterDomain"}
	for text, want := range map[string]string{
		"upstream": "upstreams", "UPSTREAMS": "upstreams", "cache-size": "cacheSize", "clusterdn": "clusterDNS",
		"clusterDomian": "clusterDomain", "": "listen", strings.Repeat("listen", 1<<18): "listen",
	} {
		if got := Nearest(text, names); got != want {
			t.Errorf("Nearest(%.20q) = %s, want %s", text, got, want)
		}
	}
}
