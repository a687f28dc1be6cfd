package netns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// systemd-resolved's files (systemd-resolved.service(8), "/etc/resolv.conf").
const (
	stubLink    = "../run/systemd/resolve/stub-resolv.conf"
	stubFile    = "/run/systemd/resolve/stub-resolv.conf"
	uplinksFile = "/run/systemd/resolve/resolv.conf"

	originalFile = "/var/lib/node-dns/resolv.conf.orig"
)

// uplinks writes the nameservers of systemd-resolved's links like systemd-resolved: by replacing
// its file.
func uplinks(l *lab.Lab, nameservers ...string) {
	text := "# This is /run/systemd/resolve/resolv.conf managed by man:systemd-resolved(8).\n# Do not edit.\n"
	for _, addr := range nameservers {
		text += "nameserver " + addr + "\n"
	}
	if len(nameservers) == 0 {
		text += "# No DNS servers known.\n"
	}
	next := filepath.Join(filepath.Dir(uplinksFile), ".#resolv.conf")
	l.WriteFile(next, text+"search example.com\n")
	l.Run("mv", next, uplinksFile)
}

// systemdResolved makes a node with these uplinks, whose resolv.conf is systemd-resolved's stub.
func systemdResolved(nameservers ...string) option {
	return byHand(func(l *lab.Lab) {
		l.WriteFile(stubFile, stubText)
		uplinks(l, nameservers...)
		l.Run("ln", "-s", stubLink, resolvConf)
	})
}

const stubText = "# This is /run/systemd/resolve/stub-resolv.conf managed by man:systemd-resolved(8).\n" +
	"nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch example.com\n"

// TestSystemdResolved: without NetworkManager there are no events. The stub is replaced, its
// uplinks are followed, and the symlink is restored as it was.
func TestSystemdResolved(t *testing.T) {
	n := newNode(t, systemdResolved(ns1))
	_, body, _ := strings.Cut(stubText, "\n") // its comment would say of our file "Do not edit"
	ours := strings.NewReplacer("127.0.0.53", nodeIP).Replace(body)
	n.await(right{Upstreams: []string{ns1}, Text: ours})
	if target, err := os.Readlink(originalFile); err != nil || target != stubLink {
		t.Errorf("the saved original links to %q, %v", target, err)
	}
	for _, step := range []struct {
		name    string
		uplinks []string
		want    []string
	}{
		{"other nameservers", []string{ns2, ns1}, []string{ns2, ns1}},
		{"this node, read from our resolv.conf, and one other", []string{nodeIP, ns2}, []string{ns2}},
		{"none while the link is down", nil, []string{ns2}},
		{"only this node", []string{nodeIP}, []string{ns2}},
		{"the link is up again", []string{ns1}, []string{ns1}},
	} {
		uplinks(n.l, step.uplinks...)
		n.await(right{Upstreams: step.want, Text: ours})
		if t.Failed() {
			t.Fatalf("after: %s", step.name)
		}
	}
	n.daemon.Stop()
	n.l.Run(n.program, "restore")
	if target, err := os.Readlink(resolvConf); err != nil || target != stubLink || n.l.ReadFile(resolvConf) != stubText {
		t.Errorf("restored a link to %q, %v, with content %q", target, err, n.l.ReadFile(resolvConf))
	}
	if _, err := os.Lstat(originalFile); err == nil {
		t.Errorf("%s still exists", originalFile)
	}
}
