package lab

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// StartDnsmasq starts dnsmasq with a configuration, in which ROOT stands for root, and with root's
// etc/hosts. Its log is theirs.log in root. Settings of the test itself are on the command line. If
// another test takes the port first, dnsmasq ends and is started at another one.
func StartDnsmasq(t testing.TB, root, conf string) netip.AddrPort {
	t.Helper()
	path := filepath.Join(root, "theirs.conf")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(conf, "ROOT", root)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if at, ok := tryDnsmasq(t, root, path, conf); ok {
			return at
		}
	}
	log, _ := os.ReadFile(filepath.Join(root, "theirs.log"))
	t.Fatalf("dnsmasq does not answer\n%s", log)
	return netip.AddrPort{}
}

// tryDnsmasq starts dnsmasq. It returns false if dnsmasq ends before it answers.
func tryDnsmasq(t testing.TB, root, path, conf string) (at netip.AddrPort, ok bool) {
	t.Helper()
	at = dnstest.FreePort(t)
	args := []string{
		"--keep-in-foreground", "--conf-file=" + path, fmt.Sprintf("--port=%d", at.Port()), "--listen-address=127.0.0.1",
		"--bind-interfaces", "--no-resolv", "--log-facility=" + filepath.Join(root, "theirs.log"), "--user=", "--pid-file=",
	}
	if !strings.Contains(conf, "no-hosts") {
		args = append(args, "--no-hosts", "--addn-hosts="+filepath.Join(root, "etc/hosts"))
	}
	cmd := exec.Command("dnsmasq", args...)
	StartBeside(t, cmd)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // killed, or failed to bind
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		select {
		case <-ended:
			return at, false
		default:
		}
		if !strings.HasSuffix(dnstest.AskLine(t, at, "version.bind TXT ch"), "no response") {
			return at, true
		}
	}
	t.Fatal("dnsmasq runs and does not answer")
	return at, false
}
