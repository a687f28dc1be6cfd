package upstream

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestRender(t *testing.T) {
	all := set("10.0.0.2 10.0.0.3:5353 2001:db8::53 fe80::1%eth0 [2001:db8::54]:5353 dns+tls://1.1.1.1#one.one.one.one 10.0.0.2",
		"vpn.example: 10.8.0.1 10.8.0.2:5353 dns+tls://10.8.0.3", "30.172.in-addr.arpa: 172.30.0.1", "tls.example: dns+tls://10.8.0.3")
	golden.Check(t, "testdata/dnsmasq.conf", string(all.DnsmasqConf()))
	golden.Check(t, "testdata/resolv.conf", string(all.ResolvConf()))
	golden.Check(t, "testdata/record.json", string(Record{
		Set: all, Origin: NetworkManager, Detail: "eth0", Event: "eth0 dhcp4-change", Pointed: addrs("192.168.122.50 192.168.122.7"),
		Time: time.Date(2026, 2, 3, 4, 5, 6, 7, time.FixedZone("", 3600)),
	}.Bytes()))
	for name, text := range map[string][]byte{
		"DnsmasqConf": Set{}.DnsmasqConf(), "ResolvConf": Set{}.ResolvConf(),
		"DnsmasqConf of TLS alone": set("dns+tls://1.1.1.1").DnsmasqConf(),
	} {
		if len(text) > 0 {
			t.Errorf("%s: got %q", name, text)
		}
	}
}

// TestDnsmasqReadsWhatIsRendered: dnsmasq must start with the file after a rollback.
func TestDnsmasqReadsWhatIsRendered(t *testing.T) {
	lab.NeedPrograms(t, "dnsmasq")
	path := filepath.Join(t.TempDir(), "upstream.conf")
	// Every machine has lo, and dnsmasq looks up a zone ID.
	text := strings.ReplaceAll(readGolden(t, "dnsmasq.conf"), "%eth0", "%lo")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("dnsmasq", "--test", "--conf-file="+path).CombinedOutput(); err != nil {
		t.Errorf("dnsmasq refuses the file: %v: %s", err, out)
	}
}

func readGolden(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
