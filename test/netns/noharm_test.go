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

// TestUnmanagedInterface: NetworkManager runs and does not manage the interface of the default route (NM_CONTROLLED=no,
// unmanaged-devices), so it has nothing to write. Told to write resolv.conf again, it wrote an empty one over what had been
// restored a millisecond before, and the only copy of the original was gone by then.
func TestUnmanagedInterface(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(n *node)
	}{
		{"stop", func(n *node) {
			n.l.Run(n.program, "restore", "--if-ours") // as ExecStop= does, while the daemon answers
			n.daemon.Stop()
			n.l.Run(n.program, "restore", "--if-ours") // ExecStopPost=
		}},
		{"crash", func(n *node) {
			n.daemon.Kill()
			n.l.Try(n.program, "apply") // exit code 1: the local nameserver does not answer
		}},
		{"erase", func(n *node) {
			n.daemon.Stop()
			n.l.Run(n.program, "restore", "--if-ours", "--purge")
		}},
		// The run ended between its word to NetworkManager and the look at what came of it.
		{"cut short", func(n *node) {
			n.daemon.Stop()
			n.l.WriteFile(resolvConf, byAdmin)
			n.l.Run("rm", snippetFile)
			n.l.Nmcli("general", "reload", "conf")
			if got := n.l.ReadFile(resolvConf); got != generated {
				n.t.Fatalf("NetworkManager has something to write: %q", got)
			}
			n.l.Run("rm", "-r", "/run/node-dns")
			n.hook("eth0", "dns-change") // node-dns is not in use any more
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t, usualRcManager(), withResolvConf(byAdmin),
				withFile("/etc/NetworkManager/conf.d/unmanaged.conf", "[keyfile]\nunmanaged-devices=interface-name:eth0\n"))
			n.l.Addr("eth0", nodeIP+"/24")
			n.l.Route("default via " + router)
			n.await(right{Upstreams: []string{ns1}, Text: "# the admin's\nsearch admin.example\nnameserver " + nodeIP + "\noptions timeout:2\n"})
			if n.rcManager() != "unmanaged" {
				t.Fatalf("rc-manager is %s: there is nothing to give back", n.rcManager())
			}
			test.end(n)
			n.wantGivenBack(byAdmin)
			if got := n.rcManager(); got == "unmanaged" {
				t.Errorf("rc-manager is %s", got)
			}
		})
	}
}

// wantGivenBack: resolv.conf is this, and nothing is left to go back to.
func (n *node) wantGivenBack(text string) {
	n.t.Helper()
	if got := n.l.ReadFile(resolvConf); got != text {
		n.t.Errorf("resolv.conf is %q, want %q", got, text)
	}
	if _, err := os.Lstat(originalFile); !errors.Is(err, fs.ErrNotExist) {
		n.t.Errorf("the saved original: %v", err)
	}
}

// TestEditIsKept: where resolv.conf is the admin's, a new one that he writes over ours is followed, and is what he gets back. A
// stop, a crash and rpm -e brought the file of the installation back.
func TestEditIsKept(t *testing.T) {
	for _, test := range []struct {
		name     string
		options  []option
		upstream string // what names go to after the edit
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

// TestLineIsEdited: `sed -i s/nameserver.*/.../` in our file was written over without a word. The line that the admin
// meant is followed, and the file names this node again.
func TestLineIsEdited(t *testing.T) {
	n := newNode(t, byHand(func(l *lab.Lab) { l.WriteFile(resolvConf, byAdmin) }))
	pointed := "# the admin's\nsearch admin.example\nnameserver " + nodeIP + "\noptions timeout:2\n"
	n.awaitText(pointed)
	n.displaced(func() { n.l.Run("sed", "-i", "s/^nameserver .*/nameserver "+ns2+"/", resolvConf) })
	n.awaitText(pointed)
	n.awaitAnswerOf(ns2)
	if log := n.unit.output.String(); !strings.Contains(log, "over=\"somebody who changed its lines\"") {
		t.Errorf("the log does not say what became of the edit:\n%s", log)
	}
	// ansible's lineinfile for an option, and a domain more, went lost at the stop.
	n.displaced(func() {
		n.l.Run("sed", "-i", "s/^options .*/options timeout:1 rotate/; s/^search .*/& more.example/", resolvConf)
	})
	n.awaitText("# the admin's\nsearch admin.example more.example\nnameserver " + nodeIP + "\noptions timeout:1 rotate\n")
	n.awaitAnswerOf(ns2)
	n.daemon.Stop()
	n.l.Run(n.program, "restore", "--if-ours")
	n.wantGivenBack("# the admin's\nsearch admin.example more.example\nnameserver " + ns2 + "\noptions timeout:1 rotate\n")
}

// awaitText waits until resolv.conf is ours, with this below our line.
func (n *node) awaitText(text string) {
	n.t.Helper()
	n.l.Await("our resolv.conf", func() bool { return n.l.ReadFile(resolvConf) == hostdns.Watermark+"\n"+text })
}

// awaitAnswerOf waits until names go to a nameserver.
func (n *node) awaitAnswerOf(upstream string) {
	n.t.Helper()
	n.l.Await("names to go to "+upstream, func() bool { return ask(nodeIP, "who.test.") == upstream })
}

// TestSearchAfterOverwrite: one overwrite, by a VPN's script or cloud-init, replaced the search list for good: over reconnections and
// restarts it was the writer's, while the nameservers were NetworkManager's again in three seconds.
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
