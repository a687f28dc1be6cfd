package netns

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/test/lab"
)

const (
	byAdmin     = "# the admin's\nsearch admin.example\nnameserver " + ns1 + "\noptions timeout:2\n"
	editedLater = "search later.example\nnameserver " + ns2 + "\n"
)

// TestUnmanagedInterface: NetworkManager is running but does not manage the interface of the
// default route (NM_CONTROLLED=no, unmanaged-devices), so it has no nameservers. Told to write
// resolv.conf again, it wrote an empty file over the one restored a millisecond before, and the
// only copy of the original was already deleted.
func TestUnmanagedInterface(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(n *node)
	}{
		{"stop", func(n *node) {
			n.l.Run(n.program, "restore", "--if-ours") // like ExecStop=, while the daemon answers
			n.daemon.Stop()
			n.l.Run(n.program, "restore", "--if-ours") // like ExecStopPost=
		}},
		{"crash", func(n *node) {
			n.daemon.Kill()
			n.l.Try(n.program, "apply") // exit code 1: the local nameserver does not answer
		}},
		{"erase", func(n *node) {
			n.daemon.Stop()
			n.l.Run(n.program, "restore", "--if-ours", "--purge")
		}},
		// The run ended after it had told NetworkManager and before it checked the result.
		{"cut short", func(n *node) {
			n.daemon.Stop()
			n.l.WriteFile(resolvConf, byAdmin)
			n.l.Run("rm", snippetFile)
			n.l.Nmcli("general", "reload", "conf")
			if got := n.l.ReadFile(resolvConf); got != generated {
				n.t.Fatalf("NetworkManager has something to write: %q", got)
			}
			n.l.Run("rm", "-r", "/run/node-dns")
			n.hook("eth0", "dns-change") // node-dns is no longer in use
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t, usualRcManager(), withResolvConf(byAdmin),
				withFile("/etc/NetworkManager/conf.d/unmanaged.conf", "[keyfile]\nunmanaged-devices=interface-name:eth0\n"))
			n.l.Addr("eth0", nodeIP+"/24")
			n.l.Route("default via " + router)
			n.await(right{Upstreams: []string{ns1}, Text: "# the admin's\nsearch admin.example\nnameserver " + nodeIP + "\noptions timeout:2\n"})
			if n.rcManager() != "unmanaged" {
				t.Fatalf("rc-manager is %s, so there is nothing to restore", n.rcManager())
			}
			test.end(n)
			n.wantGivenBack(byAdmin)
			if got := n.rcManager(); got == "unmanaged" {
				t.Errorf("rc-manager is %s", got)
			}
		})
	}
}

// wantGivenBack checks that resolv.conf has this text and that no saved original is left.
func (n *node) wantGivenBack(text string) {
	n.t.Helper()
	if got := n.l.ReadFile(resolvConf); got != text {
		n.t.Errorf("resolv.conf is %q, want %q", got, text)
	}
	if _, err := os.Lstat(originalFile); !errors.Is(err, fs.ErrNotExist) {
		n.t.Errorf("the saved original: %v", err)
	}
}

// TestEditIsKept: if the admin owns resolv.conf and writes a new one over ours, the new one is
// followed and restored later. A stop, a crash and rpm -e used to restore the file from the time of
// the installation.
func TestEditIsKept(t *testing.T) {
	for _, test := range []struct {
		name     string
		options  []option
		upstream string // nameserver of queries after the edit
	}{
		{"no NetworkManager", []option{byHand(func(l *lab.Lab) { l.WriteFile(resolvConf, byAdmin) })}, ns2},
		{"dns=none", []option{dnsNone(), withResolvConf(byAdmin)}, ns2},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t, test.options...)
			if n.nm != nil {
				n.connect("eth0")
			}
			n.displaced(func() {
				n.awaitText("# the admin's\nsearch admin.example\nnameserver " + nodeIP + "\noptions timeout:2\n")
				n.l.WriteFile(resolvConf, editedLater)
			})
			n.awaitText("search later.example\nnameserver " + nodeIP + "\n")
			n.awaitAnswerOf(test.upstream)
			n.daemon.Stop()
			n.l.Run(n.program, "restore", "--if-ours")
			n.wantGivenBack(editedLater)
		})
	}
}

// TestLineIsEdited: an edit of our file with `sed -i s/nameserver.*/.../` used to be overwritten
// silently. The admin's nameserver is now followed, and the file names this node again.
func TestLineIsEdited(t *testing.T) {
	n := newNode(t, byHand(func(l *lab.Lab) { l.WriteFile(resolvConf, byAdmin) }))
	pointed := "# the admin's\nsearch admin.example\nnameserver " + nodeIP + "\noptions timeout:2\n"
	n.awaitText(pointed)
	n.displaced(func() { n.l.Run("sed", "-i", "s/^nameserver .*/nameserver "+ns2+"/", resolvConf) })
	n.awaitText(pointed)
	n.awaitAnswerOf(ns2)
	if log := n.unit.output.String(); !strings.Contains(log, "over=\"an edit of its lines\"") {
		t.Errorf("the log does not report the edit:\n%s", log)
	}
	// An option changed by ansible's lineinfile and an added domain used to be lost at the stop.
	n.displaced(func() {
		n.l.Run("sed", "-i", "s/^options .*/options timeout:1 rotate/; s/^search .*/& more.example/", resolvConf)
	})
	n.awaitText("# the admin's\nsearch admin.example more.example\nnameserver " + nodeIP + "\noptions timeout:1 rotate\n")
	n.awaitAnswerOf(ns2)
	n.daemon.Stop()
	n.l.Run(n.program, "restore", "--if-ours")
	n.wantGivenBack("# the admin's\nsearch admin.example more.example\nnameserver " + ns2 + "\noptions timeout:1 rotate\n")
}

// awaitText waits until resolv.conf is ours and has this text below our line.
func (n *node) awaitText(text string) {
	n.t.Helper()
	n.l.Await("our resolv.conf", func() bool { return n.l.ReadFile(resolvConf) == hostdns.Watermark+"\n"+text })
}

// awaitAnswerOf waits until an upstream answers queries.
func (n *node) awaitAnswerOf(upstream string) {
	n.t.Helper()
	n.l.Await("names to go to "+upstream, func() bool { return ask(nodeIP, "who.test.") == upstream })
}

// TestSearchAfterOverwrite: one overwrite, by a VPN's script or cloud-init, used to replace the
// search list permanently. It persisted across reconnections and restarts, while the nameservers
// were NetworkManager's again after three seconds.
func TestSearchAfterOverwrite(t *testing.T) {
	n := newNode(t, usualRcManager())
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	n.displaced(func() { n.l.WriteFile(resolvConf, "# by a VPN\nsearch vpn.example\nnameserver 192.0.2.1\n") })
	n.await(right{Upstreams: []string{ns1}, Text: "# by a VPN\nsearch example.com\nnameserver " + nodeIP + "\n"})
	n.daemon.Stop()
	n.l.Run(n.program, "restore", "--if-ours")
	n.wantOwnedByNetworkManager()
	n.wantGivenBack(n.l.ReadFile(networkManagerResolvConf))
}
