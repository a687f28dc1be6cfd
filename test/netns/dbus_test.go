package netns

import (
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// withPolicy installs our bus policy, for the user that runs the daemon in this test.
func withPolicy(t *testing.T) option {
	t.Helper()
	policy := readDocument(t, "packaging/dbus/node-dns.conf")
	if !strings.Contains(policy, `user="node-dns"`) {
		t.Fatal("the policy does not name the daemon's user")
	}
	return func(s *setup) {
		s.files = append(s.files, func(l *lab.Lab) {
			l.BusPolicy("node-dns.conf", strings.ReplaceAll(policy, `user="node-dns"`, `user="nobody"`))
		})
	}
}

// TestDBusPage runs the commands of the page on D-Bus as root and checks the effect of each one
// that sets something.
func TestDBusPage(t *testing.T) {
	lab.NeedPrograms(t, "dbus-send", "busctl", "dig")
	n := newNode(t, withPolicy(t))
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	sh := newShell(t, "/")
	n.l.Run("ln", "-s", lab.Binary(t, "node-dns"), "/usr/sbin/node-dns")
	who := func(name string) string { // the nameserver that answers for a name
		out := n.l.Run("dig", "+short", "+tries=2", "@"+nodeIP, name, "TXT")
		return strings.Trim(out, "\"\n")
	}
	who("who.test")
	ran := 0
	for _, b := range blocks(t, dbusPage) {
		for _, command := range b {
			printed := sh.run(command)
			ran++
			status := n.l.Run("node-dns", "status", "-o", "json")
			for method, want := range map[string]string{
				"SetDomainServers array": `"/corp.example/10.77.0.54",`, "SetDomainServers as 3": `"/x.corp.example/#"`, "SetServersEx": `"/corp.example/10.77.0.54"`,
				"SetServers us": `"/corp.example/10.77.0.54"`, "SetDomainServers as 0": `"servers": [],`,
				"SetFilterAAAA b true": `"filter-AAAA"`, "SetFilterAAAA b false": `"options": [],`, "SetBogusPrivOption b true": `"bogus-priv"`,
			} {
				if strings.Contains(command, method) && !strings.Contains(status, want) {
					t.Errorf("%s\nno %s in\n%s", command, want, status)
				}
			}
			if strings.HasSuffix(command, "Routes") && !strings.Contains(printed, `"ask" "NetworkManager`) {
				t.Errorf("%s\n%s", command, printed)
			}
		}
	}
	if ran < 15 {
		t.Errorf("the page has only %d commands", ran)
	}
	for _, command := range mentioned(t, dbusPage) {
		sh.run(command)
	}

	// Port 53: SetServers cannot express another one.
	const call = "busctl call uk.org.thekelleys.dnsmasq /uk/org/thekelleys/dnsmasq uk.org.thekelleys "
	if got := who("who.test"); got != ns1 {
		t.Errorf("%s answers", got)
	}
	sh.run(call + "SetServers us 172818486 who.test")
	if got := who("who.test"); got != ns2 {
		t.Errorf("after SetServers %s answers", got)
	}
	sh.run(call + "SetServers av 1 u 172818486")
	if got := who("who.test"); got != ns2 {
		t.Errorf("after SetServers with variants %s answers", got)
	}
	sh.run(call + "SetDomainServers as 1 /who.test/10.77.0.54@eth0@" + nodeIP)
	if got := who("who.test"); got != ns2 {
		t.Errorf("through eth0 %s answers", got)
	}
	sh.run(call + "SetDomainServers as 0")
	if got := who("who.test"); got != ns1 {
		t.Errorf("at the end %s answers", got)
	}
}
