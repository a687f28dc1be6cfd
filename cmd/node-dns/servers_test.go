package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"gopkg.in/yaml.v3"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/golden"
)

// runWith runs a command on a daemon's tree and returns its output and exit code.
func (p *process) runWith(args ...string) (text string, code int) {
	p.t.Helper()
	out, err := os.CreateTemp(p.t.TempDir(), "")
	if err != nil {
		p.t.Fatal(err)
	}
	defer out.Close()
	stdout := os.Stdout
	os.Stdout = out
	code = run(p.t.Context(), append([]string{"--root", p.root}, args...))
	os.Stdout = stdout
	printed, err := os.ReadFile(out.Name())
	if err != nil {
		p.t.Fatal(err)
	}
	return string(printed), code
}

// times matches what differs between runs, except ports.
var times = regexp.MustCompile(`\d+\.\d\dms|\d+ms`)

// TestServers: a daemon with servers from two files, the cluster and the captured resolv.conf shows
// which source won, which lost to which, and which is rejected, in three output formats of one
// value.
func TestServers(t *testing.T) {
	t.Parallel()
	const records = "*.example. 300 IN A 192.0.2.80\nexample. 300 IN SOA a. b. 1 2 3 4 5\n"
	admin, lab, site := dnstest.NewServer(t, records), dnstest.NewServer(t, records), dnstest.NewServer(t, records)
	p := start(t, `mkdir -p $ROOT/etc/node-dns $ROOT/etc/dnsmasq.d &&
printf 'upstreams: ["%s"]\nserviceCIDRs: []\nroutes: [{domain: corp.example, servers: ["%s"]}]\n' $ADMIN $ADMIN >$ROOT/etc/node-dns/node-dns.yaml &&
printf 'server=192.0.2.60\nserver=/lab.example/%s\nserver=/corp.example/192.0.2.61\nlocal=/home/\n' $LAB >$ROOT/etc/dnsmasq.conf &&
printf 'server=%s\n' $SITE >$ROOT/etc/dnsmasq.d/origin-upstream-dns.conf &&
exec node-dns --root $ROOT serve --listen 127.0.0.1:0`,
		"ADMIN="+admin.Addr().String(), "LAB="+strings.Replace(lab.Addr().String(), ":", "#", 1), "SITE="+strings.Replace(site.Addr().String(), ":", "#", 1))
	p.await("the listeners", func() bool { return p.has("/run/node-dns/ready") })
	address := p.status().Listeners[0].Address
	for _, name := range []string{"a.example.", "b.lab.example."} {
		if m, err := dns.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), address); err != nil || len(m.Answer) != 1 {
			t.Fatalf("%s: %v, %v", name, m, err)
		}
	}
	mask := strings.NewReplacer(p.root, "", admin.Addr().String(), "ADMIN:53", lab.Addr().String(), "LAB:53", site.Addr().String(), "SITE:53")
	text, code := p.runWith("servers")
	if code != exitOK {
		t.Errorf("exit code %d", code)
	}
	// The number of queries is not checked, because loop probes add to it. On a busy machine some
	// may fail: the JSON, which is fetched later, then has as many failures or more.
	shown := regexp.MustCompile(` +`).ReplaceAllString(times.ReplaceAllString(mask.Replace(text), "TIME"), " ")
	shown = regexp.MustCompile(`(up TIME) \d+`).ReplaceAllString(shown, "$1 N")
	asJSON, _ := p.runWith("servers", "-o", "json")
	if regexp.MustCompile(`"failures": [1-9]`).MatchString(asJSON) {
		shown = regexp.MustCompile(`(up TIME N) \d+`).ReplaceAllString(shown, "$1 0")
	}
	golden.Check(t, "testdata/servers.txt", shown)

	asYAML, _ := p.runWith("servers", "-o", "yaml")
	var list control.ServerList
	if err := json.Unmarshal([]byte(asJSON), &list); err != nil {
		t.Fatal(err)
	}
	if list.APIVersion != control.APIVersion || list.Kind != "ServerList" || len(list.Routes) != 4 || list.Routes[3].Rank != "node-dns.yaml" || len(list.Lost) != 3 {
		t.Errorf("%+v", list)
	}
	var fromJSON, fromYAML map[string]any
	if err := json.Unmarshal([]byte(asJSON), &fromJSON); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(asYAML), &fromYAML); err != nil {
		t.Fatalf("%v:\n%s", err, asYAML)
	}
	for _, m := range []map[string]any{fromJSON, fromYAML} {
		delete(m, "now")    // each has its own
		delete(m, "routes") // the counters continue
	}
	if diff := cmp.Diff(fromJSON, fromYAML); diff != "" {
		t.Errorf("(-json +yaml)\n%s", diff)
	}

	// A server that is down is a problem.
	write(t, filepath.Join(p.root, "etc/node-dns/node-dns.yaml"), "upstreams: [\"127.0.0.1:1\"]\nserviceCIDRs: []\n")
	p.await("the other upstream", func() bool { return p.lists("127.0.0.1:1") })
	p.await("a dead server", func() bool {
		dns.Exchange(new(dns.Msg).SetQuestion("c.example.", dns.TypeA), address)
		text, code = p.runWith("servers")
		return code == exitProblem
	})
	if !strings.Contains(text, "\n! 127.0.0.1:1 (for .) is down: ") || !strings.Contains(text, "DOWN") {
		t.Error(text)
	}
}

// lists reports whether a server is in the table.
func (p *process) lists(server string) bool {
	text, _ := p.runWith("servers")
	return strings.Contains(text, " "+server+" ")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestForms: text that looks like a number or null stays text in YAML, and no output format
// contains a character that controls a terminal.
func TestForms(t *testing.T) {
	in := map[string]any{
		"a": []string{
			"1", "true", "null", "~", "", "0x1f", "1e3", "2026-11-21", "x: y", "- x", "#x", "a\nb",
			"\x1b[2J", "\x7f", "\u009b", "\u202e", "\U000e0001", "\U0001f600 ü",
		},
		"b": map[string]any{}, "c": []string{}, "d": nil,
	}
	var asJSON, asYAML bytes.Buffer
	if err := errors.Join(writeJSON(&asJSON, in), writeYAML(&asYAML, in)); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(in)
	var want, fromJSON, fromYAML any
	err = errors.Join(err, json.Unmarshal(text, &want), json.Unmarshal(asJSON.Bytes(), &fromJSON), yaml.Unmarshal(asYAML.Bytes(), &fromYAML))
	if err != nil {
		t.Fatalf("%v: %s", err, asYAML.String())
	}
	for form, got := range map[string]any{"JSON": fromJSON, "YAML": fromYAML} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", form, diff)
		}
	}
	for _, out := range []string{asJSON.String(), asYAML.String()} {
		if strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%q", out)
		}
	}
}
