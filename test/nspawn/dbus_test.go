package nspawn

import (
	"strings"
	"testing"
)

// setServers are the words of a call that sets servers, as root's scripts have them.
func setServers(servers ...string) []string {
	return []string{
		"dbus-send", "--system", "--print-reply", "--dest=uk.org.thekelleys.dnsmasq", "/uk/org/thekelleys/dnsmasq",
		"uk.org.thekelleys.SetDomainServers", "array:string:" + strings.Join(servers, ","),
	}
}

// ownsNames reports whether the daemon's user has both names on the bus.
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

// TestDBus: under its unit the daemon has its names as its own user, nobody is refused by the bus, and what root sets holds over
// restarts, SIGKILL and a restart of the bus, and ends with stop.
func TestDBus(t *testing.T) {
	n := newServingNode(t)
	n.Await("the names on the bus", n.ownsNames)
	if out, err := n.Try(append([]string{"runuser", "-u", "nobody", "--"}, setServers("/who.test/"+ns2)...)...); err == nil || !strings.Contains(out, "org.freedesktop.DBus.Error.AccessDenied") {
		t.Errorf("nobody: %v\n%s", err, out)
	}
	if out, err := n.Try("runuser", "-u", "nobody", "--", "busctl", "get-property", "org.node_dns", "/org/node_dns", "org.node_dns.Manager", "Ready"); err == nil || !strings.Contains(out, "ccess denied") {
		t.Errorf("nobody: %v\n%s", err, out)
	}
	if got := n.ask(); got != ns1 {
		t.Errorf("%s is asked", got)
	}
	n.Run(setServers("/who.test/" + ns2)...)
	holds := func(when string) {
		t.Helper()
		if got := n.ask(); got != ns2 {
			t.Errorf("%s %s is asked", when, got)
		}
	}
	holds("when it is set")
	if status := n.Run("node-dns", "status"); !strings.Contains(status, "from D-Bus SetDomainServers by pid ") {
		t.Errorf("who set it is not told:\n%s", status)
	}
	n.Run(append([]string{"systemd-run", "--wait", "--collect", "--unit=sdn", "--"}, setServers("/who.test/"+ns2, "/corp.test/"+ns1)...)...)
	if status := n.Run("node-dns", "status"); !strings.Contains(status, ", uid 0, sdn.service, :") && !strings.Contains(status, " (uid 0, sdn.service, :") {
		t.Errorf("which unit set it is not told:\n%s", status)
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
		t.Errorf("with others set %s is asked", got)
	}

	n.Run(setServers("/who.test/" + ns2)...)
	n.Run("systemctl", "stop", "node-dns.service")
	n.Run("systemctl", "start", "node-dns.service")
	n.Await("a pod to be answered", func() bool { return n.ask() != "" })
	if got := n.ask(); got != ns1 {
		t.Errorf("after a stop %s is asked", got)
	}
}

// TestOpenShiftSDN: on a node of OpenShift 3 its process sends this to dnsmasq, and means the nameserver that it had itself on
// 127.0.0.1: us. The site's names of addresses go to the site.
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
		t.Errorf("no note:\n%s", out)
	}
	for question, want := range map[string]string{
		"web.shop.svc.cluster.local A": "status: SERVFAIL", // nobody knows the cluster here, and nobody else is asked
		"1.2.0.192.in-addr.arpa PTR":   "status: REFUSED",  // as the LAN's nameservers say, who know nothing of it
		"www.up.example A":             "status: NOERROR",
	} {
		name, qtype, _ := strings.Cut(question, " ")
		if out := n.Run("dig", "@127.0.0.1", "+tries=4", name, qtype); !strings.Contains(out, want) {
			t.Errorf("%s: not %s\n%s", question, want, out)
		}
	}
	n.Await("an answer", func() bool { return n.ask() != "" })
	if got := n.ask(); got != "" && got != ns1 {
		t.Errorf("%s is asked", got)
	}
}
