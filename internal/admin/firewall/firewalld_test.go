package firewall

import (
	"context"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// newNode is a machine with a bridge cni0 for pods and a site network at eth0, and its nameserver.
func newNode(t *testing.T) (*lab.Lab, Nameserver) {
	t.Helper()
	l := lab.New(t)
	for link, prefix := range map[string]string{"cni0": "10.128.0.1/24", "eth0": "10.0.0.7/24"} {
		peer := l.Namespace("at-" + link)
		l.Veth(link, peer, "peer0")
		l.Addr(link, prefix)
	}
	l.Addr("cni0", "fd77::1/64")
	l.Route("default via 10.0.0.1")
	net, err := netstate.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l, Nameserver{
		Listen: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.7:53"), netip.MustParseAddrPort("[fd77::1]:53")},
		Net:    net, PodCIDRs: prefixes("10.128.0.0/14", "fd77::/48"), AllowFrom: nodeconfig.AllowFrom{Local: true},
	}
}

// firewalldRows are changes to firewalld's configuration with the expected finding. An empty string
// means no finding.
var firewalldRows = []struct {
	name, change string // firewall-cmd arguments, one command per line
	says         string
	notRoot      string // expected finding without the kernel's rules, if it differs
}{
	{name: "as installed", says: "firewalld drops DNS from pods on cni0: zone public does not allow service dns"},
	{name: "the service", change: "--zone=public --add-service=dns"},
	{name: "the service in another zone", change: "--zone=internal --add-service=dns", says: "zone public does not allow service dns"},
	{name: "another default zone", change: "--set-default-zone=work", says: "zone work does not allow service dns"},
	{name: "a default zone that accepts", change: "--set-default-zone=trusted"},
	{name: "UDP alone", change: "--zone=public --add-port=50-60/udp", says: "firewalld drops DNS over TCP from pods on cni0"},
	{name: "protocols", change: "--zone=public --add-protocol=udp\n--zone=public --add-protocol=tcp"},
	{name: "the bridge in a zone", change: "--permanent --zone=internal --add-interface=cni0\n--reload", says: "zone internal does not allow service dns"},
	{name: "the bridge in a zone that accepts", change: "--zone=trusted --add-interface=cni0"},
	{name: "all bridges in a zone that accepts", change: "--zone=trusted --add-interface=cni+"},
	{name: "the site in a zone that accepts", change: "--zone=trusted --add-interface=eth0", says: "zone public does not allow"},
	{name: "pods' networks in a zone that accepts", change: "--zone=trusted --add-source=10.128.0.0/14\n--zone=trusted --add-source=fd77::/48"},
	{name: "pods' IPv4 network in a zone that accepts", change: "--zone=trusted --add-source=10.128.0.0/14", says: "clients in fd77::/64"},
	{name: "pods' networks in a zone that drops", change: "--permanent --zone=drop --add-source=10.128.0.0/14\n--permanent --zone=trusted --add-interface=cni0\n--reload", says: "zone drop does not allow service dns"},
	{name: "a target that accepts", change: "--permanent --zone=public --set-target=ACCEPT\n--reload"},
	{name: "a service of the admin's own", change: "--permanent --new-service=names\n--permanent --service=names --add-include=dns\n--permanent --zone=public --add-service=names\n--reload"},
	{
		name: "a rich rule", change: `--zone=public --add-rich-rule=rule_service_name="dns"_accept`,
		notRoot: "firewalld may drop DNS from pods on cni0: zone public has rules that were not evaluated",
	},
	{
		name: "a rich rule for others", change: `--zone=public --add-rich-rule=rule_family="ipv4"_source_address="10.0.0.0/24"_service_name="dns"_accept`,
		says: "zone public does not allow service dns", notRoot: "firewalld may drop DNS from pods on cni0",
	},
	{
		name: "a rich rule with a rate", change: `--zone=public --add-rich-rule=rule_service_name="dns"_accept_limit_value="10/s"`,
		says: "firewalld may drop DNS from pods on cni0",
	},
	{
		name:    "a policy",
		change:  "--permanent --new-policy=names\n--permanent --policy=names --add-ingress-zone=ANY\n--permanent --policy=names --add-egress-zone=HOST\n--permanent --policy=names --add-service=dns\n--reload",
		notRoot: "firewalld may drop DNS from pods on cni0",
	},
	{
		name:    "an ipset",
		change:  "--permanent --new-ipset=pods --type=hash:net\n--permanent --ipset=pods --add-entry=10.128.0.0/14\n--permanent --zone=trusted --add-source=ipset:pods\n--reload",
		says:    "clients in fd77::/64",
		notRoot: "firewalld may drop DNS from pods on cni0",
	},
}

// TestFirewalld proves with a real firewalld that the kernel's rules and the zones give the same
// result, and that the suggested command opens the zones.
func TestFirewalld(t *testing.T) {
	lab.Need(t, "firewalld", "nft")
	for _, row := range firewalldRows {
		t.Run(row.name, func(t *testing.T) {
			l, n := newNode(t)
			l.Bus()
			l.Firewalld()
			for line := range strings.Lines(row.change) {
				argv := []string{"firewall-cmd"}
				for _, word := range strings.Fields(line) {
					argv = append(argv, strings.ReplaceAll(word, "_", " "))
				}
				l.Run(argv...)
			}
			s := Read(t.Context())
			if s.Firewalld == nil || s.Rules == nil || len(s.Problems) > 0 {
				t.Fatalf("got %+v", s)
			}
			found := s.Find(n)
			wantFound(t, found, row.says)
			alone := State{Firewalld: s.Firewalld}
			if row.notRoot == "" {
				row.notRoot = row.says
			}
			wantFound(t, alone.Find(n), row.notRoot)

			for _, f := range found {
				if !f.Drops {
					return
				}
				l.Run("sh", "-c", f.Fix)
			}
			wantFound(t, Read(t.Context()).Find(n), "")
		})
	}
}

// wantFound checks for one finding that contains says, or for none if says is empty.
func wantFound(t *testing.T, found []Finding, says string) {
	t.Helper()
	if len(found) == 0 && says == "" {
		return
	}
	if len(found) != 1 || says == "" || !strings.Contains(found[0].What+"\n"+strings.Join(found[0].Details, "\n"), says) {
		t.Errorf("got %+v, want %q", found, says)
	}
}

// TestNarrowFix proves that, if the zone of pods also contains the site, the alternative command
// opens it only to pods.
func TestNarrowFix(t *testing.T) {
	lab.Need(t, "firewalld", "nft")
	l, n := newNode(t)
	l.Bus()
	l.Firewalld()
	found := Read(t.Context()).Find(n)
	wantFound(t, found, "also contains eth0")
	for _, f := range found {
		_, command, _ := strings.Cut(f.Details[len(f.Details)-1], "only these clients: ")
		l.Run("sh", "-c", command)
	}
	s := Read(t.Context())
	wantFound(t, s.Find(n), "")
	n.AllowFrom.Networks = prefixes("10.0.0.0/24")
	wantFound(t, s.Find(n), "firewalld drops DNS from clients on eth0: zone public does not allow service dns")
}

// TestFixRules proves that the suggested commands open chains of nftables and of iptables.
func TestFixRules(t *testing.T) {
	lab.Need(t, "nft", "iptables", "ip6tables")
	for _, row := range []struct{ name, load, says string }{
		{"nftables", "nft -f - <<E\ntable inet filter {\nchain input {\ntype filter hook input priority 0; policy drop;\ntcp dport 22 accept\n}\n}\nE", "chain input of table inet filter drops DNS from pods on cni0"},
		{"iptables", "iptables -P INPUT DROP", "chain INPUT of table ip filter drops DNS from pods on cni0"},
		{"ip6tables", "ip6tables -P INPUT DROP", "chain INPUT of table ip6 filter drops DNS from pods on cni0"},
		{"iptables that accepts UDP", "iptables -P INPUT DROP && iptables -A INPUT -p udp --dport 53 -j ACCEPT", "drops DNS over TCP from pods on cni0"},
	} {
		t.Run(row.name, func(t *testing.T) {
			l, n := newNode(t)
			l.Run("sh", "-c", row.load)
			found := Read(t.Context()).Find(n)
			wantFound(t, found, row.says)
			for _, f := range found {
				l.Run("sh", "-c", f.Fix)
			}
			wantFound(t, Read(t.Context()).Find(n), "")
		})
	}
}

// TestLegacy proves that rules on the kernel's older interface are noticed but not read.
func TestLegacy(t *testing.T) {
	lab.Need(t, "nft")
	if _, err := exec.LookPath("iptables-legacy"); err != nil {
		t.Skip("RHEL has no iptables-legacy")
	}
	l, n := newNode(t)
	wantFound(t, Read(t.Context()).Find(n), "")
	l.Run("iptables-legacy", "-P", "INPUT", "DROP")
	defer l.Run("iptables-legacy", "-P", "INPUT", "ACCEPT")
	wantFound(t, Read(t.Context()).Find(n), "iptables-legacy may drop DNS from pods on cni0")
}

// TestReadNothing proves that nothing is known about firewalld without a bus or without time, and
// that only the latter is a problem.
func TestReadNothing(t *testing.T) {
	lab.Need(t, "nft")
	l := lab.New(t)
	if s := Read(t.Context()); s.Firewalld != nil || s.Rules == nil || len(s.Problems) > 0 {
		t.Errorf("got %+v without a bus", s)
	}
	l.Bus()
	if s := Read(t.Context()); s.Firewalld != nil || len(s.Problems) > 0 {
		t.Errorf("got %+v without firewalld", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s := Read(ctx); s.Firewalld != nil || s.Rules != nil || len(s.Problems) != 2 {
		t.Errorf("got %+v without time", s)
	}
}
