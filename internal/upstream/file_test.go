package upstream

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
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

func TestParseDnsmasqConf(t *testing.T) {
	tests := []struct {
		name, text string
		want       Set
		errs       []string // each line of the error
	}{
		{name: "empty"},
		{name: "dispatcher script", text: "server=10.0.0.2\nserver=10.0.0.3\n", want: set("10.0.0.2 10.0.0.3")},
		{name: "no final newline", text: "server=10.0.0.2\nserver=10.0.0.3", want: set("10.0.0.2 10.0.0.3")},
		{name: "CRLF", text: "server=10.0.0.2\r\n\r\nserver=10.0.0.3\r\n", want: set("10.0.0.2 10.0.0.3")},
		{name: "comments and blanks", text: "# mine\n\n \t\n  server = 10.0.0.2  # first\nserver=10.0.0.3#5353\t#second\n", want: set("10.0.0.2 10.0.0.3:5353")},
		{name: "duplicates", text: "server=10.0.0.2\nserver=10.0.0.2#53\n", want: set("10.0.0.2")},
		{name: "IPv6", text: "server=2001:db8::1#5353\nserver=fe80::1%eth0\n", want: set("[2001:db8::1]:5353 fe80::1%eth0")},
		{
			name: "routes", text: "server=/cluster.local/172.30.0.1\nserver=/a.example/b.example/10.0.0.4#5353\n",
			want: set("", "a.example: 10.0.0.4:5353", "b.example: 10.0.0.4:5353", "cluster.local: 172.30.0.1"),
		},
		{
			name: "good lines are kept", text: "no-resolv\nserver=10.0.0.2\nserver=dns.example\nserver=/a b/10.0.0.3\nserver=10.0.0.4",
			want: set("10.0.0.2 10.0.0.4"),
			errs: []string{
				`line 1: expected server=, got "no-resolv"`,
				`line 3: expected an address, or address#port, got "dns.example": not an IP address`,
				`line 4: parsing name "a b": character that is not a letter, digit, '-' or '_'`,
			},
		},
		{
			name: "refused forms", text: strings.Join([]string{
				"server", "server=", "server=/a.example/", "server=//10.0.0.2", "server=/10.0.0.2", "server=10.0.0.2@eth0",
				"server=10.0.0.2:53", "server=10.0.0.2#x", "server=dns+tls://1.1.1.1", "Server=10.0.0.2", "server=10.0.0.2 10.0.0.3", "address=/a.example/10.0.0.2",
			}, "\n"),
			errs: []string{
				`line 1: expected an address, or address#port, got "": not an IP address`,
				`line 2: expected an address, or address#port, got "": not an IP address`,
				`line 3: expected an address, or address#port, got "": not an IP address`,
				`line 4: empty name`,
				`line 5: expected server=/domain/address, got "/10.0.0.2"`,
				`line 6: expected an address, or address#port, got "10.0.0.2@eth0": not an IP address`,
				`line 7: expected an address, or address#port, got "10.0.0.2:53": not an IP address`,
				`line 8: parsing nameserver "10.0.0.2#x": port outside 1 to 65535`,
				`line 9: expected an address, or address#port, got "dns+tls://1.1.1.1": not an IP address`,
				`line 10: expected server=, got "Server=10.0.0.2"`,
				`line 11: expected an address, or address#port, got "10.0.0.2 10.0.0.3": not an IP address`,
				`line 12: expected server=, got "address=/a.example/10.0.0.2"`,
			},
		},
		{
			// dnsmasq would break the line in two.
			name: "64 KB", text: "server=10.0.0.2\nserver=" + strings.Repeat("x", 64<<10), want: set("10.0.0.2"),
			errs: []string{"line 2: longer than 1024 bytes"},
		},
		{
			name: "a long word", text: "server=" + strings.Repeat("x", 1000),
			errs: []string{`line 1: expected an address, or address#port, got "` + strings.Repeat("x", 64) + `...": not an IP address`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseDnsmasqConf([]byte(tt.text))
			if diff := cmp.Diff(tt.want, got, asText); diff != "" {
				t.Error(diff)
			}
			var errs []string
			if err != nil {
				errs = strings.Split(err.Error(), "\n")
			}
			if diff := cmp.Diff(tt.errs, errs); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseDnsmasqConfBoundsErrors(t *testing.T) {
	_, err := ParseDnsmasqConf([]byte(strings.Repeat("bad\n", 1000)))
	if err == nil {
		t.Fatal("got no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if last := lines[len(lines)-1]; len(lines) != 21 || last != "line 21: too many errors; later ones are not reported" {
		t.Errorf("got %d lines, last line %q", len(lines), last)
	}
}

// TestServersAreBounded: a file of 30,000 lines, and a record of that length, made the daemon use
// 158 MB. A server that is already in the set does not count again.
func TestServersAreBounded(t *testing.T) {
	const domainOf = "server=/a.example/b.example/"
	var text strings.Builder
	for i := range 30000 {
		addr := fmt.Sprintf("10.1.%d.%d", i>>8, i&255)
		fmt.Fprintf(&text, "server=%s\n%s%s\nserver=10.1.0.0\n", addr, domainOf, addr)
	}
	got, err := ParseDnsmasqConf([]byte(text.String()))
	want := `line 193: more than 64 nameservers: ignoring 29936, from 10.1.0.64 on
line 770: more than 512 nameservers for routes: ignoring 59488, from /a.example/b.example/10.1.1.0 on`
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant %s", err, want)
	}
	wantCounts := []int{MaxServers, 2, maxRouted / 2, maxRouted / 2}
	counts := func(s Set) []int {
		return []int{len(s.Servers), len(s.Routes), len(s.Routes[0].Servers), len(s.Routes[1].Servers)}
	}
	if diff := cmp.Diff(wantCounts, counts(got)); diff != "" || got.Servers[MaxServers-1].String() != "10.1.0.63" {
		t.Errorf("%s, last server %v", diff, got.Servers[MaxServers-1])
	}
	if again, err := ParseDnsmasqConf(got.DnsmasqConf()); err != nil || !again.Equal(got) {
		t.Errorf("round trip: error %v", err)
	}

	tooMany := got.Normalize()
	for i := range 1000 {
		server := nameserver.FromAddr(netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}))
		tooMany.Servers = append(tooMany.Servers, server)
		tooMany.Routes[1].Servers = append(tooMany.Routes[1].Servers, server)
	}
	record, err := ParseRecord(Record{Set: tooMany}.Bytes())
	if err != nil || !record.Set.Equal(got) {
		t.Errorf("got error %v, record counts %v", err, counts(record.Set))
	}
}

func FuzzParseDnsmasqConf(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("server=10.0.0.2\nserver=/a/b.example/2001:db8::1#5353\r\n# x\nserver=fe80::1%eth0"))
	f.Add([]byte("server=/./10.0.0.2\nserver=10.0.0.2 #c\nserver=/*.x/10.0.0.3\nserver=/a/"))
	for _, text := range hostile {
		f.Add([]byte("server=" + text))
		f.Add([]byte("server=/" + text + "/10.0.0.2"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _ := ParseDnsmasqConf(data)
		text := s.DnsmasqConf()
		again, err := ParseDnsmasqConf(text)
		if err != nil || !again.Equal(s) {
			t.Fatalf("%q became %v, %v; want %v", text, again, err, s)
		}
		if strings.Trim(string(text), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:*/#%=\n") != "" {
			t.Fatalf("%q has a character that dnsmasq does not expect", text)
		}
		record, err := ParseRecord(Record{Set: s, Detail: string(data)}.Bytes())
		if err != nil || !record.Set.Equal(s) {
			t.Fatalf("the record holds %v, %v; want %v", record.Set, err, s)
		}
	})
}
