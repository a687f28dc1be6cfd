package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/termtext"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// hostile sets a terminal's title, rings the bell, clears the screen (in C1), changes the text
// direction, is invalid UTF-8, moves to the start of the line, and begins a line of its own.
const hostile = "x\x1b]0;pwn\x07\u009b2J\u202e\x9b\u2028\U000e0001\r\n" + forged + "\x7f"

// forged must not begin a line.
const forged = "node-dns: all is well"

// outside lists the ways in which untrusted text reaches the terminal of a user. Each prepares a
// tree and returns the commands that show it.
var outside = []struct {
	name string
	lay  func(t *testing.T, root string) [][]string
}{
	{"a daemon that was taken over: its values", func(t *testing.T, root string) [][]string {
		return asking(serveControl(t, root, func(w http.ResponseWriter, r *http.Request) {
			values := map[string]any{
				"/v1/status": new(control.Status), "/v1/servers/history": new(control.ServerHistory), "/v1/query": new(control.Answer), "/v1/search": new(control.Search),
				"/v1/log-queries": new(control.LogQueries), "/v1/cache/flush": new(control.CacheFlushed), "/v1/cache/stats": new(control.CacheStats), "/v1/slow": new(control.SlowNames),
				"/v1/complete": new(control.Completions),
			}
			if value, ok := values[r.URL.Path]; ok {
				fill(reflect.ValueOf(value).Elem())
				json.NewEncoder(w).Encode(value)
				return
			}
			if strings.HasSuffix(r.URL.Path, "/dump") {
				var entry control.CacheEntry
				fill(reflect.ValueOf(&entry).Elem())
				json.NewEncoder(w).Encode(entry)
				return
			}
			for _, kind := range []string{control.KindChange, control.KindLost, control.KindQuery, hostile} {
				var event control.MonitorEvent
				fill(reflect.ValueOf(&event).Elem())
				event.Kind = kind
				json.NewEncoder(w).Encode(event)
			}
		}))
	}},
	{"a daemon that was taken over: its errors", func(t *testing.T, root string) [][]string {
		return asking(serveControl(t, root, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			json.NewEncoder(w).Encode(map[string]string{"error": hostile})
		}))
	}},
	{"a daemon that was taken over: mistakes that it finds", func(t *testing.T, root string) [][]string {
		return asking(serveControl(t, root, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			json.NewEncoder(w).Encode(map[string]string{"error": hostile})
		}))
	}},
	{"a nameserver queried directly", func(t *testing.T, root string) [][]string {
		at := serveHostile(t)
		return [][]string{
			{"query", "www.example", "TXT", at},
			{"query", "www.example", "TXT", at, "--short"},
			{"query", "www.example", at, "--trace", "--tcp"},
			{"query", "www.example", "TXT", at, "-o", "json"},
			{"query", "www.example", "other.example", at, "-o", "yaml"},
		}
	}},
	{"command-line arguments", func(_ *testing.T, root string) [][]string {
		return [][]string{
			{"--root", root, hostile},
			{"--" + hostile},
			{"--root", root + hostile, "status"},
			{"--root", root, "status", "-o", hostile},
			{"status", hostile},
			{"query", hostile, hostile, hostile},
			{"query", "-x", hostile},
			{"query", "a", "-t", hostile},
			{"query", "a", "@" + hostile},
			{"query", "a", "@192.0.2.1", "--as", hostile},
			{"explain", "a", "--pod", hostile},
			{"monitor", "--client", hostile},
			{"monitor", "--rcode", hostile},
			{"monitor", "--pod", hostile},
			{"monitor", "--pod", hostile, "-n", hostile},
			{"top", hostile},
			{"cache", "dump", hostile, hostile},
			{"cache", hostile},
			{"log-queries", hostile},
			{"wait", "--for", hostile},
			{"status", "--watch=" + hostile},
			{"--root", root, "serve", "--listen", hostile},
			{"--root", root, "serve", "--upstream", hostile},
			{"check-config", "--config", hostile},
			{"--root", root, "serve", "--config", root + hostile},
			{"help", hostile},
			{"completion", hostile},
			{"__complete", hostile, ""},
		}
	}},
	{"files", func(t *testing.T, root string) [][]string {
		dnsmasq := "server=/" + hostile + "/192.0.2.1\n" + hostile + "=" + hostile + "\nconf-file=" + hostile + "\naddn-hosts=" + hostile + "\n"
		for path, text := range map[string]string{
			"etc/node-dns/node-dns.yaml":                 "upstreams: [" + strconv.Quote(hostile) + "]\n" + strconv.Quote(hostile) + ": " + strconv.Quote(hostile) + "\nlisten: [\"" + `\e]0;pwn\a` + "\"]\nkubeconfig: \"/\\e[2J\\nnode-dns: all is well\"\n",
			"etc/dnsmasq.conf":                           dnsmasq,
			"etc/dnsmasq.d/" + hostile + ".conf":         dnsmasq,
			"etc/resolv.conf":                            "# " + hostile + "\nsearch " + hostile + "\nnameserver " + hostile + "\noptions " + hostile + "\n",
			"etc/hosts":                                  "192.0.2.1 " + hostile + "\n",
			"etc/origin/node/node-config.yaml":           "dnsIP: " + strconv.Quote(hostile) + "\nnodeName: " + strconv.Quote(hostile) + "\nkubeletArguments: {cluster-dns: [" + strconv.Quote(hostile) + "]}\n",
			"etc/origin/node/resolv.conf":                "nameserver " + hostile + "\n",
			"etc/NetworkManager/NetworkManager.conf":     "[main]\ndns=" + hostile + "\nrc-manager=" + hostile + "\n",
			"etc/NetworkManager/conf.d/" + hostile + "":  "[main]\ndns=" + hostile + "\n",
			"etc/systemd/resolved.conf":                  "[Resolve]\nDNS=" + hostile + "\nDNSStubListener=" + hostile + "\n",
			"etc/NetworkManager/dispatcher.d/" + hostile: "#!/bin/sh\n# dnsmasq " + hostile + "\n",
			"etc/NetworkManager/dispatcher.d/99-dns.sh":  "#!/bin/sh\necho nameserver " + hostile + " > /etc/resolv.conf; systemctl restart dnsmasq\n",
			"var/lib/node-dns/upstreams.json":            `{"servers": [` + strconv.Quote(hostile) + `]}`,
			"var/lib/node-dns/resolv.conf.orig":          "nameserver " + hostile + "\nnameserver 192.0.2.1\n",
			"var/lib/node-dns/node-config.json":          `{"` + hostile,
			"proc/7/cmdline":                             "/usr/bin/kubelet\x00--cluster-dns=" + hostile + "\x00--config=/" + hostile + "\x00--resolv-conf=" + hostile,
			"proc/7/comm":                                "kubelet\n",
			"proc/7/status":                              "Name:\tkubelet\nUid:\t0\t0\t0\t0\n",
		} {
			writeFile(t, root, path, text)
		}
		return append(looking(),
			[]string{"restore", "--force"}, []string{"serve", "--listen", "127.0.0.1:0"})
	}},
	{"a kubeconfig", func(t *testing.T, root string) [][]string {
		writeFile(t, root, "etc/node-dns/node-dns.yaml", "kubeconfig: /etc/node-dns/kubeconfig\n")
		writeFile(t, root, "etc/node-dns/kubeconfig", strings.ReplaceAll("apiVersion: v1\nkind: Config\nclusters: [{name: X, cluster: {server: X, proxy-url: X}}]\n"+
			"users: [{name: X, user: {username: X, as: X}}]\ncontexts: [{name: X, context: {cluster: X, user: X}}]\ncurrent-context: X\n", "X", strconv.Quote(hostile)))
		return append(looking(), []string{"serve", "--listen", "127.0.0.1:0"})
	}},
	{"the Kubernetes API", func(t *testing.T, root string) [][]string {
		status := map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": hostile, "reason": hostile, "code": 500}
		return ofCluster(t, root, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Warning", `299 - "`+strings.ReplaceAll(hostile, "\r\n", "")+`"`)
			w.WriteHeader(http.StatusInternalServerError)
			json.NewEncoder(w).Encode(status)
		}))
	}},
	{"a proxy before the Kubernetes API", func(t *testing.T, root string) [][]string {
		return ofCluster(t, root, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			w.Write([]byte(hostile))
		}))
	}},
}

// looking returns the commands that inspect a tree.
func looking() [][]string {
	var commands [][]string
	for _, form := range []string{"text", "json", "yaml"} {
		commands = append(commands, []string{"check-config", "-o", form}, []string{"doctor", "-o", form}, []string{"migrate", "-o", form})
	}
	return append(commands, []string{"check-config", "-q"}, []string{"restore", "--dry-run"}, []string{"restore", "--if-ours"})
}

// asking returns the commands that query the daemon.
func asking(_ struct{}) [][]string {
	commands := [][]string{{"query", "--short", "a"}, {"wait", "--timeout=50ms"}, {"restore"}, {"status", "--wait", "--wait-duration=50ms"}, {"cache", "flush", "--all"}, {"__complete", "explain", "-n", ""}, {"__complete", "query", "@"}}
	for _, form := range []string{"text", "json", "yaml"} {
		for _, words := range []string{
			"status", "status --brief", "servers", "servers --history", "query a", "query a --trace", "query a b --as c/d", "explain a -n b", "explain a --pod b/c", "explain x --slow", "monitor --count 1", "log-queries",
			"log-queries on", "cache dump", "cache stats", "cache flush a", "version", "doctor",
		} {
			commands = append(commands, append(strings.Fields(words), "-o", form))
		}
	}
	return commands
}

// ofCluster returns the commands, with a daemon whose API server answers with api.
func ofCluster(t *testing.T, root string, api http.Handler) [][]string {
	server := httptest.NewTLSServer(api)
	t.Cleanup(server.Close)
	real := kubetest.NewServer(t)
	text := strings.ReplaceAll(string(real.Kubeconfig()), real.URL(), server.URL)
	writeFile(t, root, "etc/node-dns/kubeconfig", text)
	writeFile(t, root, "etc/node-dns/node-dns.yaml", "kubeconfig: /etc/node-dns/kubeconfig\nclusterDomain: cluster.local\n")
	commands := [][]string{{"daemon"}, {"query", "web.shop.svc.cluster.local."}}
	for _, form := range []string{"text", "json", "yaml"} {
		for _, words := range []string{"status", "servers", "explain --pod b/c web.", "doctor", "check-config"} {
			commands = append(commands, append(strings.Fields(words), "-o", form))
		}
	}
	return commands
}

// serveHostile returns the @SERVER argument for a nameserver with hostile names and TXT records.
func serveHostile(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, query *dns.Msg) {
		m := new(dns.Msg).SetReply(query)
		question := query.Question[0]
		header := dns.RR_Header{Name: question.Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 300}
		m.Answer = []dns.RR{&dns.TXT{Hdr: header, Txt: []string{hostile}}}
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: 6, ExtraText: hostile}}
		_ = w.WriteMsg(m) // a command that does not get it fails
	})}
	go func() { _ = server.ActivateAndServe() }() // ends when the socket is closed
	t.Cleanup(func() { _ = conn.Close() })
	return "@" + conn.LocalAddr().String()
}

func writeFile(t *testing.T, root, path, text string) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serveControl answers on the control socket in place of a daemon.
func serveControl(t *testing.T, root string, answer http.HandlerFunc) struct{} {
	t.Helper()
	path := control.SocketPath(root)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(answer)
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return struct{}{}
}

// fill sets all strings of a value to hostile text and gives each list one element.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Now()))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	}
}

// TestNothingSteersTheTerminal: untrusted text is escaped on stdout and stderr of every command, in
// every output format, including errors (an API server's message used to be unescaped), and begins
// no line that looks like one of ours.
func TestNothingSteersTheTerminal(t *testing.T) {
	t.Parallel()
	for _, way := range outside {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			root := lab.ShortDir(t)
			seen := false
			for _, words := range way.lay(t, root) {
				if words[0] == "daemon" {
					p := &process{t: t, root: root}
					said := new(lab.Text)
					p.another(said, nil, "serve", "--listen", "127.0.0.1:0", "--upstream", "127.0.0.1:1")
					if !lab.Poll(20*time.Second, func() bool { return strings.Contains(said.String(), "pwn") }) {
						t.Errorf("the daemon did not print it: %s", said)
					}
					checkSteersNothing(t, words, said.String())
					continue
				}
				args := words
				if !strings.Contains(strings.Join(words, " "), "--root") {
					args = append([]string{"--root", root}, words...)
				}
				cmd := exec.Command("node-dns", args...)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if words[0] == "serve" || words[0] == "monitor" { // these do not end by themselves
					timer := time.AfterFunc(time.Second, func() { cmd.Process.Signal(os.Interrupt) })
					defer timer.Stop()
				}
				_ = cmd.Wait() // most of them fail
				seen = seen || strings.Contains(out.String(), "pwn")
				checkSteersNothing(t, words, out.String())
			}
			if !seen {
				t.Error("no command printed it, so this row tests nothing")
			}
		})
	}
}

// hostilePage is a page with unescaped text.
type hostilePage struct{}

func (hostilePage) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "DOWN %s\n", strings.ReplaceAll(hostile, "\n", ""))
	return err
}

// TestOwnColours: a page on a terminal, and one drawn by --watch, contain our own colors and cursor
// movements, but none from untrusted text.
func TestOwnColours(t *testing.T) {
	var page, drawn bytes.Buffer
	err := showOn(termtext.NewWriter(&page), hostilePage{}, "text", false, looks{isColoured: true})
	if err == nil {
		err = writeBlock(termtext.NewWriter(&drawn), page.String(), true)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{page.String(), drawn.String()} {
		if !strings.HasPrefix(out, red+"DOWN"+plain+" ") || !strings.Contains(out, "pwn") {
			t.Errorf("%q", out)
		}
		checkSteersNothing(t, nil, strings.NewReplacer(red, "", plain, "").Replace(out))
	}
}

func checkSteersNothing(t *testing.T, words []string, out string) {
	t.Helper()
	for i, r := range out {
		_, size := utf8.DecodeRuneInString(out[i:])
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) || r == utf8.RuneError && size == 1 {
			t.Errorf("%.60q: %q controls the terminal, in %.300q", words, r, out[max(0, i-80):])
			return
		}
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, forged) {
			t.Errorf("%.60q prints a forged line: %.600q", words, out[max(0, strings.Index(out, "\n"+forged)-300):])
			return
		}
	}
}
