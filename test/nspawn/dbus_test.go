package nspawn

import (
	"strings"
	"testing"
)

// setServers returns the command line with which root's scripts set servers.
func setServers(servers ...string) []string {
	return []string{
		"dbus-send", "--system", "--print-reply", "--dest=uk.org.thekelleys.dnsmasq", "/uk/org/thekelleys/dnsmasq",
		"uk.org.thekelleys.SetDomainServers", "array:string:" + strings.Join(servers, ","),
	}
}

// ownsNames reports whether the daemon's user owns both names on the bus.
func (n *node) ownsNames() bool {
	uid := strings.TrimSpace(n.Run("id", "-u", "node-dns"))
	for _, name := range []string{"uk.org.thekelleys.dnsmasq", "org.node_dns"} {
		out, err := n.Try("busctl", "--no-pager", "call", "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetConnectionUnixUser", "s", name)
		if err != nil || strings.TrimSpace(out) != "u "+uid {
			return false
		}
	}
	return true
}

// TestDBus: under its unit the daemon owns its names as its own user, and the bus refuses the user
// nobody. Root's settings survive restarts, SIGKILL and a restart of the bus, and end with a stop.
func TestDBus(t *testing.T) {
	n := newServingNode(t)
	n.Await("the names on the bus", n.ownsNames)
	if out, err := n.Try(append([]string{"runuser", "-u", "nobody", "--"}, setServers("/who.test/"+ns2)...)...); err == nil || !strings.Contains(out, "org.freedesktop.DBus.Error.AccessDenied") {
		t.Errorf("the user nobody: got %v\n%s", err, out)
	}
	if out, err := n.Try("runuser", "-u", "nobody", "--", "busctl", "get-property", "org.node_dns", "/org/node_dns", "org.node_dns.Manager", "Ready"); err == nil || !strings.Contains(out, "ccess denied") {
		t.Errorf("the user nobody: got %v\n%s", err, out)
	}
	if got := n.ask(); got != ns1 {
		t.Errorf("queries go to %s", got)
	}
	n.Run(setServers("/who.test/" + ns2)...)
	holds := func(when string) {
		t.Helper()
		if got := n.ask(); got != ns2 {
			t.Errorf("%s queries go to %s", when, got)
		}
	}
	holds("when it is set")
	if status := n.Run("node-dns", "status"); !strings.Contains(status, "from D-Bus SetDomainServers by pid ") {
		t.Errorf("the status does not name the caller:\n%s", status)
	}
	n.Run(append([]string{"systemd-run", "--wait", "--collect", "--unit=sdn", "--"}, setServers("/who.test/"+ns2, "/corp.test/"+ns1)...)...)
	if status := n.Run("node-dns", "status"); !strings.Contains(status, ", uid 0, sdn.service, :") && !strings.Contains(status, " (uid 0, sdn.service, :") {
		t.Errorf("the status does not name the caller's unit:\n%s", status)
	}

	n.Run("systemctl", "restart", "node-dns.service")
	holds("after a restart")
	n.Await("the names on the bus", n.ownsNames)
	pid := n.mainPID()
	n.Run("systemctl", "kill", "--signal=KILL", "node-dns.service")
	n.Await("another process", func() bool { return n.mainPID() != pid && n.mainPID() != "0" })
	n.Await("an answer after SIGKILL", func() bool { return n.ask() != "" })
	holds("after SIGKILL")
	n.Await("the names on the bus", n.ownsNames)

	n.Run("systemctl", "kill", "--signal=KILL", "dbus.service")
	n.Await("the names on the new bus", n.ownsNames)
	holds("after the bus was killed")
	n.Run(setServers("/other.test/" + ns2)...)
	if got := n.ask(); got != ns1 {
		t.Errorf("with other servers queries go to %s", got)
	}

	n.Run(setServers("/who.test/" + ns2)...)
	n.Run("systemctl", "stop", "node-dns.service")
	n.Run("systemctl", "start", "node-dns.service")
	n.Await("a pod to be answered", func() bool { return n.ask() != "" })
	if got := n.ask(); got != ns1 {
		t.Errorf("after a stop queries go to %s", got)
	}
}

// TestOpenShiftSDN: on an OpenShift 3 node, the node process sends this to dnsmasq. It means its
// own nameserver on 127.0.0.1, which is now node-dns. Reverse names of the site's addresses go to
// the site.
func TestOpenShiftSDN(t *testing.T) {
	n := newLeasedNode(t)
	n.WriteFile("/etc/origin/node/node-config.yaml", "dnsBindAddress: 127.0.0.1:53\ndnsDomain: cluster.local\ndnsIP: "+nodeIP+"\n", 0o600)
	n.Run("systemctl", "enable", "--now", "node-dns.service")
	n.awaitServing()
	n.Await("the names on the bus", n.ownsNames)
	for range 3 {
		n.Run(setServers("/in-addr.arpa/127.0.0.1", "/cluster.local/127.0.0.1")...)
	}
	if out := n.Run("node-dns", "status"); !strings.Contains(out, "127.0.0.1 for cluster.local. (D-Bus SetDomainServers by pid ") {
		t.Errorf("the status has no note:\n%s", out)
	}
	for question, want := range map[string]string{
		"web.shop.svc.cluster.local A": "status: SERVFAIL", // the cluster is unknown here, and no other nameserver is queried
		"1.2.0.192.in-addr.arpa PTR":   "status: REFUSED",  // the answer of the LAN's nameservers, which do not know it
		"www.up.example A":             "status: NOERROR",
	} {
		name, qtype, _ := strings.Cut(question, " ")
		if out := n.Run("dig", "@127.0.0.1", "+tries=4", name, qtype); !strings.Contains(out, want) {
			t.Errorf("%s: want %s, got\n%s", question, want, out)
		}
	}
	n.Await("an answer", func() bool { return n.ask() != "" })
	if got := n.ask(); got != "" && got != ns1 {
		t.Errorf("queries go to %s", got)
	}
}
