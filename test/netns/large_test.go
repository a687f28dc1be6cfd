package netns

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestLargeAnswersAreLost: the network drops datagrams of more than 600 bytes, like some firewalls
// and tunnels. Large answers arrive over TCP before a client's first timeout. If TCP is blocked
// too, small answers still arrive.
func TestLargeAnswersAreLost(t *testing.T) {
	lab.Need(t, "nft")
	const far = "10.77.0.60"
	n := newNode(t, byHand(func(l *lab.Lab) {
		l.WriteFile("/etc/node-dns/node-dns.yaml", "upstreams: ["+far+"]\n")
		l.WriteFile(resolvConf, "nameserver "+far+"\n")
	}))
	n.lan.Run("ip", "addr", "add", far+"/24", "dev", "lan0")
	var server *dnstest.Server
	var err error
	zone := "*.large.test. 60 IN TXT " + strings.Repeat(`"`+strings.Repeat("x", 250)+`" `, 3) + "\n*.small.test. 60 IN TXT small\n"
	insideErr := n.lan.Inside(func() { server, err = dnstest.StartAt(netip.MustParseAddrPort(far+":53"), zone) })
	if insideErr != nil || err != nil {
		t.Fatal(insideErr, err)
	}
	t.Cleanup(server.Close)
	n.l.Await("the upstream to be queried", func() bool { return ask(nodeIP, "a.small.test.") == "small" })

	n.lan.Run("nft", "add table inet path; add chain inet path out { type filter hook output priority 0; }; add rule inet path out udp sport 53 meta length > 628 counter drop")
	patient := dns.Client{Timeout: 5 * time.Second, UDPSize: 1232}
	query := func(name string, isSigned bool) *dns.Msg {
		t.Helper()
		m := new(dns.Msg).SetQuestion(name, dns.TypeTXT)
		m.SetEdns0(1232, isSigned)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		response, _, err := patient.ExchangeContext(ctx, m, nodeIP+":53")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return response
	}
	for _, name := range []string{"a.large.test.", "b.large.test.", "c.large.test."} {
		if m := query(name, name == "b.large.test."); len(m.Answer) != 1 || m.Truncated {
			t.Errorf("%s: %v", name, m)
		}
	}
	if rules := n.lan.Run("nft", "list", "chain", "inet", "path", "out"); strings.Contains(rules, "packets 0 ") {
		t.Errorf("no answer was lost:\n%s", rules)
	}

	n.lan.Run("nft", "add rule inet path out tcp sport 53 counter drop")
	if m := query("d.large.test.", false); m.Rcode != dns.RcodeServerFailure {
		t.Errorf("without TCP: %v", m)
	}
	if got := askOver("udp", nodeIP, "b.small.test."); got != "small" {
		t.Errorf("a small answer: %s", got)
	}
}
