package netns

import (
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/test/lab"
)

const snippetFile = "/run/NetworkManager/conf.d/90-node-dns.conf"

// usualRcManager lets NetworkManager choose how it writes resolv.conf, as on most nodes.
func usualRcManager() option {
	return func(s *setup) { s.main = nil }
}

// rcManager returns NetworkManager's RcManager property.
func (n *node) rcManager() string {
	n.t.Helper()
	out := n.l.Run("dbus-send", "--system", "--print-reply=literal", "--dest=org.freedesktop.NetworkManager",
		"/org/freedesktop/NetworkManager/DnsManager", "org.freedesktop.DBus.Properties.Get",
		"string:org.freedesktop.NetworkManager.DnsManager", "string:RcManager")
	return strings.Fields(out)[1]
}

// identity returns a FileInfo that changes whenever resolv.conf is written.
func identity(t testing.TB) os.FileInfo {
	t.Helper()
	info, err := os.Stat(resolvConf)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func sameIdentity(a, b os.FileInfo) bool { return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) }

// TestNetworkManagerLetsGo: while resolv.conf names the node, NetworkManager never writes it. When
// the daemon stops, NetworkManager manages it again.
func TestNetworkManagerLetsGo(t *testing.T) {
	n := newNode(t, usualRcManager())
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	if got := n.l.ReadFile(snippetFile); got != hostdns.Snippet || n.rcManager() != "unmanaged" {
		t.Errorf("rc-manager is %s, the snippet is:\n%s", n.rcManager(), got)
	}
	before := identity(t)
	n.l.Nmcli("general", "reload", "dns-rc")
	n.l.Nmcli("general", "reload", "dns-full")
	n.l.Nmcli("general", "reload")
	n.dhcp.SetNameservers(ns2)
	n.l.Nmcli("device", "reapply", "eth0")
	n.await(right{Upstreams: []string{ns1}})
	if !sameIdentity(before, identity(t)) {
		t.Errorf("resolv.conf was written: %q", n.l.ReadFile(resolvConf))
	}
	n.reapply("ipv4.dns-search", "new.example")
	n.await(right{Upstreams: []string{ns2}, Search: []string{"new.example"}})

	n.nm.Stop()
	n.nm = n.l.NetworkManager(n.main...)
	n.l.Nmcli("connection", "up", "eth0")
	n.await(right{Upstreams: []string{ns2}, Search: []string{"new.example"}})

	n.daemon.Stop()
	n.l.Run(n.program, "restore", "--if-ours")
	n.wantOwnedByNetworkManager()
}

// wantOwnedByNetworkManager checks that NetworkManager has written resolv.conf and does so again.
func (n *node) wantOwnedByNetworkManager() {
	n.t.Helper()
	if _, err := os.Lstat(snippetFile); err == nil || n.rcManager() == "unmanaged" {
		n.t.Errorf("rc-manager is %s, the snippet: %v", n.rcManager(), err)
	}
	if want, got := n.l.ReadFile(networkManagerResolvConf), n.l.ReadFile(resolvConf); got != want || !strings.HasPrefix(got, generated) {
		n.t.Errorf("resolv.conf is %q, want %q", got, want)
	}
	before := identity(n.t)
	n.l.Nmcli("general", "reload", "dns-rc")
	if sameIdentity(before, identity(n.t)) {
		n.t.Error("NetworkManager does not write resolv.conf")
	}
}

// TestNetworkManagerHasItBack: if a killed daemon does not return, apply gives the file back to its
// owner, including NetworkManager.
func TestNetworkManagerHasItBack(t *testing.T) {
	n := newNode(t, usualRcManager())
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	n.daemon.Kill()
	n.l.Try(n.program, "apply") // exit code 1: no answer
	n.wantOwnedByNetworkManager()
}

// TestAdminDecidesRcManager: the admin's rc-manager setting is respected in every file.
func TestAdminDecidesRcManager(t *testing.T) {
	for path, text := range map[string]string{
		"/etc/NetworkManager/conf.d/10-admin.conf":      "[main]\nrc-manager=file\n",
		"/usr/lib/NetworkManager/conf.d/10-distro.conf": "[main]\nrc-manager = symlink\n",
		"/etc/NetworkManager/conf.d/20-empty.conf":      "[main]\nrc-manager=\n",
		"/etc/NetworkManager/conf.d/90-node-dns.conf":   "",
	} {
		t.Run(path, func(t *testing.T) {
			n := newNode(t, usualRcManager(), withFile(path, text))
			n.connect("eth0")
			n.await(right{Upstreams: []string{ns1}})
			if _, err := os.Lstat(snippetFile); err == nil {
				t.Error("there is a snippet")
			}
			if out := n.l.Run(n.program, "plan"); !strings.Contains(out, "besides: NetworkManager writes /etc/resolv.conf too: ") {
				t.Errorf("plan:\n%s", out)
			}
			n.displaced(func() { n.l.Nmcli("general", "reload", "dns-rc") })
			n.await(right{Upstreams: []string{ns1}})
		})
	}
}

// TestNoCircle: our message to NetworkManager raises no event for the hook, and nothing is written
// once the node is right.
func TestNoCircle(t *testing.T) {
	n := newNode(t, usualRcManager())
	n.l.WriteFile("/run/recorder", "#!/bin/sh\necho \"$1 $2\" >>/run/recorded\n")
	n.l.Hook("98-recorder", "/run/recorder")
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	reloads := strings.Count(n.nm.Output(), "config: signal: ")
	events := n.l.ReadFile("/run/recorded")
	for range 5 {
		n.l.Run(n.program, "apply")
	}
	n.await(right{Upstreams: []string{ns1}})
	if now := strings.Count(n.nm.Output(), "config: signal: "); now != reloads || reloads == 0 {
		t.Errorf("NetworkManager read its configuration %d times, before %d", now, reloads)
	}
	if now := n.l.ReadFile("/run/recorded"); now != events {
		t.Errorf("further events: %q, before %q", now, events)
	}
}

// TestSnippetRemoved: a removed snippet is written again, and NetworkManager is notified.
func TestSnippetRemoved(t *testing.T) {
	n := newNode(t, usualRcManager())
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	if err := os.Remove(snippetFile); err != nil {
		t.Fatal(err)
	}
	n.l.Nmcli("general", "reload", "conf")
	n.await(right{Upstreams: []string{ns1}})
	if got := n.l.ReadFile(snippetFile); got != hostdns.Snippet || n.rcManager() != "unmanaged" {
		t.Errorf("rc-manager is %s, the snippet is:\n%s", n.rcManager(), got)
	}
}

// withFile writes a file of the machine before anything starts.
func withFile(path, text string) option {
	return func(s *setup) { s.files = append(s.files, func(l *lab.Lab) { l.WriteFile(path, text) }) }
}
