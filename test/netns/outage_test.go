package netns

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestCarrierFlap: after a carrier loss NetworkManager reports nothing for seconds, and then that
// there are no nameservers. The node must keep its nameservers.
func TestCarrierFlap(t *testing.T) {
	n := newNode(t)
	n.connect("eth0", "connection.autoconnect", "yes")
	want := right{Upstreams: []string{ns1}}
	n.await(want)
	lost := n.watchForLoss()
	for range 3 {
		n.lan.Run("ip", "link", "set", "lan0", "down")
		n.lan.Run("ip", "link", "set", "lan0", "up")
	}
	n.await(want)
	n.lan.Run("ip", "link", "set", "lan0", "down")
	n.l.Await("NetworkManager to have no nameserver", func() bool {
		return !strings.Contains(n.l.ReadFile(networkManagerResolvConf), "nameserver")
	})
	n.lan.Run("ip", "link", "set", "lan0", "up")
	n.await(want)
	if text := lost(); text != "" {
		t.Errorf("the upstream file temporarily was %q", text)
	}
}

// watchForLoss keeps reading the upstream file. The returned function ends that and returns the
// first content without ns1.
func (n *node) watchForLoss() func() string {
	var first atomic.Pointer[string]
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(500 * time.Microsecond):
			}
			data, err := os.ReadFile(upstreamsFile)
			if text := string(data); err != nil || !strings.Contains(text, ns1) {
				first.CompareAndSwap(nil, &text)
			}
		}
	}()
	return func() string {
		close(stop)
		<-done
		if p := first.Load(); p != nil {
			return "!" + *p
		}
		return ""
	}
}

// answers sends queries while during runs, and wants each answer from one of these nameservers.
func (n *node) answers(from []string, during func()) {
	n.t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	asked, other := 0, ""
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			asked++
			if got := ask(nodeIP, "who.test."); !slices.Contains(from, got) && other == "" {
				other = "by " + got
			}
		}
	}()
	during()
	close(stop)
	<-done
	if other != "" || asked == 0 {
		n.t.Errorf("one of %d queries got the answer %s", asked, other)
	}
}

func TestNetworkManagerRestart(t *testing.T) {
	n := newNode(t)
	n.connect("eth0", "connection.autoconnect", "yes")
	n.await(right{Upstreams: []string{ns1}})
	n.answers([]string{ns1}, func() {
		n.nm.Stop()
		n.await(right{Upstreams: []string{ns1}})
	})
	n.dhcp.SetNameservers(ns2)
	n.nm = n.l.NetworkManager(n.main...)
	n.l.Nmcli("connection", "up", "eth0")
	n.await(right{Upstreams: []string{ns2}})
	n.displaced(func() { n.l.Nmcli("general", "reload", "dns-rc") })
	n.await(right{Upstreams: []string{ns2}})
}

// TestBusRestart: the bus disappears and returns. NetworkManager 1.42 keeps running without it but
// does not connect to the new one, so it is restarted.
func TestBusRestart(t *testing.T) {
	n := newNode(t)
	n.connect("eth0", "connection.autoconnect", "yes")
	n.await(right{Upstreams: []string{ns1}})
	n.answers([]string{ns1}, func() {
		n.bus.Kill()
		n.await(right{Upstreams: []string{ns1}})
		n.nm.Stop()
		n.bus = n.l.Bus()
	})
	n.nm = n.l.NetworkManager(n.main...)
	n.l.Nmcli("connection", "up", "eth0")
	n.await(right{Upstreams: []string{ns1}})
	// A change without an event proves that the daemon watches the new bus.
	n.displaced(func() { n.l.Nmcli("general", "reload", "dns-rc") })
	n.reapply("ipv4.dns-search", "example.com")
	n.await(right{Upstreams: []string{ns2}})
}

// TestNetworkManagerHangs: a stopped NetworkManager accepts requests and never answers.
func TestNetworkManagerHangs(t *testing.T) {
	n := newNode(t)
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	n.nm.Signal(syscall.SIGSTOP)
	n.trample()
	log := n.hook("eth0", "up", "IP4_NAMESERVERS=192.0.2.2")
	if !strings.Contains(log, "source="+networkManagerResolvConf) || !strings.Contains(log, "problem=") {
		t.Errorf("the hook logged: %s", log)
	}
	n.await(right{Upstreams: []string{ns1}, Text: trampled})
	n.nm.Signal(syscall.SIGCONT)
	n.reapply("ipv4.dns-search", "example.com")
	n.await(right{Upstreams: []string{ns2}})
}

func TestNoBus(t *testing.T) {
	n := newNode(t)
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	n.nm.Kill()
	n.bus.Kill()
	n.trample()
	if log := n.hook("eth0", "up", "IP4_NAMESERVERS=192.0.2.2"); !strings.Contains(log, "source="+networkManagerResolvConf) {
		t.Errorf("the hook logged: %s", log)
	}
	n.await(right{Upstreams: []string{ns1}, Text: trampled})
	if err := errors.Join(os.Remove(networkManagerResolvConf), os.Remove(networkManagerList)); err != nil {
		t.Fatal(err)
	}
	if log := n.hook("eth0", "dhcp4-change", "IP4_NAMESERVERS="+ns2); !strings.Contains(log, "source=event") {
		t.Errorf("the hook logged: %s", log)
	}
	n.await(right{Upstreams: []string{ns2}, Text: trampled})
}

// hook runs the dispatcher like NetworkManager and returns its log. It must end by itself with exit
// code 0. It is killed only after longer than any run may take.
func (n *node) hook(link, action string, env ...string) string {
	n.t.Helper()
	cmd := exec.Command(installedHook, link, action)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=" + lab.Path, "DEVICE_IFACE=" + link, "DEVICE_IP_IFACE=" + link, "NM_DISPATCHER_ACTION=" + action}, env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	stuck := time.AfterFunc(15*time.Second, func() { cmd.Process.Kill() })
	defer stuck.Stop()
	if err := cmd.Wait(); err != nil {
		n.t.Errorf("the hook for %s %s: %v\n%s", link, action, err, &out)
	}
	return out.String()
}
