package main

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// tmux is a terminal in which node-dns runs.
type tmux struct {
	t      testing.TB
	socket string
}

// newTmux runs a command in a terminal of that size, which then shows its exit code.
func newTmux(t testing.TB, root, size, command string) *tmux {
	t.Helper()
	lab.NeedPrograms(t, "tmux")
	width, height, _ := strings.Cut(size, "x")
	term := &tmux{t, filepath.Join(root, "tmux"+size)}
	t.Cleanup(func() { exec.Command("tmux", "-S", term.socket, "kill-server").Run() }) // fails if it has ended
	term.run("-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, command+"; echo ended $?; exec sleep 60")
	return term
}

func (term *tmux) run(args ...string) string {
	term.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", term.socket}, args...)...).CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

func (term *tmux) press(keys ...string) {
	term.t.Helper()
	term.run(append([]string{"send-keys"}, keys...)...)
}

// await returns the screen once it contains all of these strings.
func (term *tmux) await(texts ...string) (screen string) {
	term.t.Helper()
	if !lab.Poll(20*time.Second, func() bool {
		screen = term.run("capture-pane", "-p")
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	}) {
		term.t.Fatalf("the screen has no %q:\n%s", texts, screen)
	}
	return screen
}

// topWorld starts a daemon with a pod at 127.0.0.7.
func topWorld(t *testing.T) (root string, ask func(client, name string, qtype uint16)) {
	t.Helper()
	records := "example. 300 IN SOA ns.example. hostmaster.example. 1 3600 600 86400 300\nwww.example. 300 IN A 192.0.2.80\nslow.example. 300 IN A 192.0.2.81\n"
	site, dead := dnstest.NewServer(t, records), dnstest.NewServer(t, records)
	site.SetFaultsFor("slow.example.", dnstest.Faults{Delay: 300 * time.Millisecond})
	dead.SetFaults(dnstest.Faults{Rcode: dns.RcodeServerFailure})
	api := kubetest.NewServer(t)
	api.Apply(`
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: web-7d9f4, namespace: shop}
spec: {nodeName: node-7, containers: []}
status: {phase: Running, podIPs: [{ip: 127.0.0.7}]}
`)
	root = lab.ShortDir(t)
	writeFile(t, root, "etc/node-dns/kubeconfig", string(api.Kubeconfig()))
	writeFile(t, root, "etc/node-dns/node-dns.yaml", "nodeName: node-7\nclusterDomain: cluster.local\nupstreams: [\""+site.Addr().String()+"\"]\nroutes: [{domain: dead.example, servers: [\""+dead.Addr().String()+"\"]}]\n")
	p := &process{t: t, root: root}
	p.another(new(lab.Text), nil, "serve", "--listen", "127.0.0.1:0")
	var server netip.AddrPort
	if !lab.Poll(20*time.Second, func() bool {
		status, err := control.FetchStatus(context.Background(), control.SocketPath(root))
		if err != nil || len(status.Listeners) == 0 || status.Cluster.Resolver == nil || status.Cluster.Resolver.Phase != "synced" {
			return false
		}
		server, err = netip.ParseAddrPort(status.Listeners[0].Address)
		return err == nil
	}) {
		t.Fatal("the daemon did not start")
	}
	return root, func(client, name string, qtype uint16) {
		c := dns.Client{Timeout: 5 * time.Second, Dialer: &net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(client)}}}
		// The query fails for a name without an answer. The test only needs it to appear in top.
		_, _, _ = c.Exchange(new(dns.Msg).SetQuestion(name, qtype), server.String())
	}
}

// TestTop checks the screen of a real terminal, small and large.
func TestTop(t *testing.T) {
	t.Parallel()
	for _, size := range []string{"80x24", "200x50"} {
		t.Run(size, func(t *testing.T) {
			t.Parallel()
			root, ask := topWorld(t)
			term := newTmux(t, root, size, "node-dns --root "+root+" top")
			term.await("ready", "[1 Names]", "q quit")
			for range 5 {
				ask("127.0.0.7", "www.example.", dns.TypeA)
			}
			ask("127.0.0.1", "nowhere.example.", dns.TypeA)
			ask("127.0.0.1", `a\027[2J\010b.example.`, dns.TypeA)
			screen := term.await("www.example.", "nowhere.example.", `a\027[2J\010b.example.`)
			if at := strings.Index(screen, "www.example."); at > strings.Index(screen, "nowhere.example.") {
				t.Errorf("the most frequent name is not the first:\n%s", screen)
			}
			term.press("2")
			term.await("[2 Clients]", "127.0.0.7", "shop/web-7d9f4")
			term.press("4")
			term.await("[4 Servers]", "dead.example.", "up")
			term.press("6")
			ask("127.0.0.1", "x.dead.example.", dns.TypeA)
			term.await("[6 Failing]", "x.dead.example.", "SERVFAIL")
			term.press("5")
			ask("127.0.0.7", "slow.example.", dns.TypeA)
			term.await("[5 Slow]", "slow.example.")
			term.press("?")
			term.await("reverse the order")
			term.press("x") // any key
			term.press("1", "/", "shop/w", "Enter")
			term.await("filter: shop/w", "nothing yet")
			ask("127.0.0.1", "nowhere.example.", dns.TypeA)
			ask("127.0.0.7", "www.example.", dns.TypeAAAA)
			if screen = term.await("www.example."); strings.Contains(screen, "nowhere.example.") {
				t.Errorf("the filter shows another client's name:\n%s", screen)
			}
			term.press("s")
			term.await("*SHARE")
			term.run("resize-window", "-x", "100", "-y", "20")
			if lines := strings.Split(strings.TrimRight(term.await("q quit"), "\n"), "\n"); len(lines) != 20 {
				t.Errorf("%d lines after the terminal was shrunk", len(lines))
			}
			status, err := control.FetchStatus(t.Context(), control.SocketPath(root))
			if err != nil || status.Watched.Monitors != 1 {
				t.Errorf("while top runs: %+v, %v", status.Watched, err)
			}
			term.press("q")
			if screen = term.await("ended 0"); strings.Contains(screen, "Names") {
				t.Errorf("top left its screen behind:\n%s", screen)
			}
			if !lab.Poll(10*time.Second, func() bool {
				status, err := control.FetchStatus(context.Background(), control.SocketPath(root))
				return err == nil && status.Watched.Monitors == 0
			}) {
				t.Error("the daemon still reports queries")
			}
		})
	}
}

// TestTopPicture: the picture in the documentation is the screen of a terminal, which -update
// draws. Times and numbers differ from run to run, so only its labels are compared.
func TestTopPicture(t *testing.T) {
	const picture = "../../docs/top.svg"
	root, ask := topWorld(t)
	term := newTmux(t, root, "80x24", "node-dns --root "+root+" top")
	term.await("ready", "[1 Names]", "q quit")
	names := []string{"www.example.", "kubernetes.default.svc.cluster.local.", "nowhere.example.", "x.dead.example.", "slow.example."}
	for i, name := range names {
		for range 3 * (len(names) - i) {
			ask("127.0.0.7", name, dns.TypeA)
		}
	}
	screen := term.await("www.example.", "nowhere.example.", "x.dead.example.", "slow.example.")
	lines := strings.Split(screen, "\n")
	if golden.Updating() {
		for counted := regexp.MustCompile(`Queries [1-9]`); !counted.MatchString(screen); screen = term.await("www.example.") {
			ask("127.0.0.7", names[0], dns.TypeA)
		}
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		screen = strings.Replace(screen, host+" ", "node-7 ", 1)
		if err := os.WriteFile(picture, []byte(svgOf(strings.Split(screen, "\n"))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	drawn, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	labels := 0
	for _, line := range lines {
		if !strings.Contains(line, "1 Names") && !strings.HasPrefix(line, "NAME ") && !strings.Contains(line, "q quit") {
			continue
		}
		if labels++; !strings.Contains(string(drawn), html.EscapeString(strings.TrimRight(line, " "))) {
			t.Errorf("%s does not have this line; -update draws it:\n%s", picture, line)
		}
	}
	if labels != 3 {
		t.Errorf("the screen has %d lines with labels:\n%s", labels, strings.Join(lines, "\n"))
	}
}

// svgOf draws the lines of a screen with 80 columns.
func svgOf(lines []string) string {
	const cell, line = 8, 18 // of a character in pixels
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"monospace\" font-size=\"13\" fill=\"#e6e6e6\">\n"+
		"<title>node-dns top</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#1e1e1e\"/>\n", 82*cell, 25*line)
	for i, text := range lines {
		if text = strings.TrimRight(text, " "); text != "" {
			// textLength makes each font as wide as a terminal's.
			fmt.Fprintf(&b, "<text xml:space=\"preserve\" x=\"%d\" y=\"%d\" textLength=\"%d\">%s</text>\n", cell, (i+1)*line, len(text)*cell, html.EscapeString(text))
		}
	}
	return b.String() + "</svg>\n"
}

// TestTopColours: NO_COLOR is respected, and without it problems are red.
func TestTopColours(t *testing.T) {
	root := lab.ShortDir(t)
	for env, want := range map[string]bool{"NO_COLOR=": true, "NO_COLOR=1": false} {
		term := newTmux(t, lab.ShortDir(t), "80x24", "TERM=screen-256color "+env+" node-dns --root "+root+" top")
		term.await("node-dns is not running")
		if got := strings.Contains(term.run("capture-pane", "-p", "-e"), "\x1b[31m") || strings.Contains(term.run("capture-pane", "-p", "-e"), "[91m"); got != want {
			t.Errorf("%s: red: %t\n%q", env, got, term.run("capture-pane", "-p", "-e"))
		}
		term.press("C-c")
		term.await("ended 0")
	}
}

// TestTopWithoutTerminal: the error says what to use instead.
func TestTopWithoutTerminal(t *testing.T) {
	cmd := exec.Command("node-dns", "top")
	cmd.Env = append(os.Environ(), "TERM=xterm")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = new(bytes.Buffer), &said
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitProblem || !strings.Contains(said.String(), "node-dns monitor") {
		t.Errorf("%v: %s", err, said.String())
	}
	term := newTmux(t, lab.ShortDir(t), "80x24", "TERM=dumb node-dns top")
	if screen := term.await("top needs a terminal", fmt.Sprintf("ended %d", exitProblem)); strings.Contains(screen, "Names") {
		t.Error(screen)
	}
}
