package main_test

import (
	"os/exec"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestNothingSteersTheTerminal: text from NetworkManager, DHCP, files and the command line is
// escaped on stdout and stderr of each verb, and starts no line that looks like our own.
func TestNothingSteersTheTerminal(t *testing.T) {
	const forged = "origin-dns-dispatcher: all is well"
	const hostile = "x\x1b]0;pwn\x07\u009b2J\u202e\x9b\r\n" + forged
	l := lab.New(t)
	s := &scene{
		Files: map[string]beforeFile{
			resolvConf: {Content: "# " + hostile + "\nnameserver " + hostile + "\nsearch " + hostile + "\nnameserver 192.0.2.1\n"}, originalFile: {Content: "# " + hostile + "\nnameserver 192.0.2.1\n"},
			nodeConfig: {Content: "dnsIP: \"\\e]0;pwn\\a\"\n"}, recordFile: {Content: "{\"" + hostile}, upstreamsFile: {Content: "server=" + hostile + "\n"},
			"/etc/node-dns/node-dns.yaml": {Content: "listen: \"\\e]0;pwn\\a\\nx\"\n"}, "/etc/NetworkManager/NetworkManager.conf": {Content: "[main]\ndns=" + hostile + "\n"},
		},
		Env: []string{"CONNECTION_ID=" + hostile, "IP4_NAMESERVERS=" + hostile, "IP4_DOMAINS=" + hostile, "DHCP4_DOMAIN_NAME_SERVERS=" + hostile, "DHCP4_DOMAIN_NAME=" + hostile},
	}
	s.stage(t, l)
	seen := false
	for _, test := range []struct {
		words []string
		env   string // set by NetworkManager
	}{
		{[]string{"plan"}, ""},
		{[]string{"plan", "-o", "json"}, ""},
		{[]string{"restore", "--dry-run"}, ""},
		{[]string{"restore"}, ""},
		{[]string{"apply"}, ""},
		{[]string{"apply", hostile}, ""},
		{[]string{hostile}, ""},
		{[]string{"plan", "-o", hostile}, ""},
		{[]string{"plan", "--" + hostile}, ""},
		{[]string{"plan", "--root", "/" + hostile}, ""},
		{[]string{hostile, "up"}, "up"},
		{[]string{"eth0", hostile}, hostile},
		{[]string{"eth0", "up"}, "up"},
	} {
		s.setUp(t, l)
		cmd := exec.Command(s.program, test.words...)
		cmd.Dir, cmd.Env = "/", s.environ()
		if test.env != "" {
			cmd.Env = append(cmd.Env, "NM_DISPATCHER_ACTION="+test.env)
		}
		text, _ := cmd.CombinedOutput() // most verbs fail here
		out := string(text)
		seen = seen || strings.Contains(out, "pwn")
		steers := func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }
		if !utf8.ValidString(out) || strings.ContainsFunc(out, steers) || strings.Contains("\n"+out, "\n"+forged) {
			t.Errorf("the output of %q contains control characters: %q", test.words, out)
		}
	}
	if !seen {
		t.Error("no verb printed the text, so nothing was tested")
	}
}
