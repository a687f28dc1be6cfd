package nm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/golden"
)

// TestRecordedEvents parses the recorded script inputs of two versions of NetworkManager, in order:
// a first activation, DHCP renewals, a carrier flap, reapply, down and up, a static profile, a DNS
// reload, a restart, and removed and added devices.
func TestRecordedEvents(t *testing.T) {
	for _, version := range []string{"nm-1.42.4", "nm-1.52.1"} {
		t.Run(version, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join("testdata", "nm-env", version, "*"))
			if err != nil || len(files) == 0 {
				t.Fatalf("recorded environments: %v, %v", files, err)
			}
			var out strings.Builder
			for _, file := range files {
				if _, mark, ok := strings.Cut(file, "-MARK-"); ok {
					fmt.Fprintf(&out, "# %s\n", mark)
					continue
				}
				argv, environ := readRecord(t, file)
				event, err := ParseEvent(argv, environ)
				if err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				out.WriteString(describe(event))
			}
			golden.Check(t, filepath.Join("testdata", version+".golden"), out.String())
		})
	}
}

// readRecord reads a record: "ARGS: [eth0] [up] …", then the environment.
func readRecord(t *testing.T, file string) (argv, environ []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for field := range strings.FieldsSeq(lines[0]) {
		if inner, ok := strings.CutPrefix(field, "["); ok {
			argv = append(argv, strings.TrimSuffix(inner, "]"))
		}
	}
	return argv, lines[1:]
}

// describe formats an event on one line, without empty fields and without the profile's UUID.
func describe(e Event) string {
	line := fmt.Sprintf("%q %s", e.Interface, e.Action)
	add := func(name, value string) {
		if value != "" {
			line += " " + name + "=" + value
		}
	}
	if !e.Matters() {
		add("matters", "no")
	}
	if e.IPInterface != e.Interface {
		add("ip-interface", e.IPInterface)
	}
	add("connection", e.ConnectionID)
	add("nameservers", join(e.Nameservers))
	add("domains", strings.Join(e.Domains, " "))
	add("vpn", e.VPN.IPInterface)
	add("vpn-nameservers", join(e.VPN.Nameservers))
	add("vpn-domains", strings.Join(e.VPN.Domains, " "))
	add("invalid", strings.Join(e.Invalid, " "))
	add("invalid-domains", strings.Join(e.InvalidDomains, " "))
	if e.Truncated {
		add("truncated", "yes")
	}
	return line + "\n"
}

func TestParseEvent(t *testing.T) {
	tests := []struct {
		name string
		argv string // separated by '|'
		env  []string
		want string
	}{{
		name: "no interface",
		argv: "none|hostname",
		want: `"" hostname`,
	}, {
		name: "no interface, other form",
		argv: "|connectivity-change",
		want: `"" connectivity-change`,
	}, {
		name: "interface from the argument alone",
		argv: "eth0|up",
		env:  []string{"IP4_NAMESERVERS=10.0.0.2"},
		want: `"eth0" up nameservers=10.0.0.2`,
	}, {
		name: "modem",
		argv: "wwan0|up",
		env:  []string{"DEVICE_IFACE=ttyUSB0", "DEVICE_IP_IFACE=wwan0", "IP6_NAMESERVERS=fe80::1"},
		want: `"ttyUSB0" up ip-interface=wwan0 nameservers=fe80::1%wwan0`,
	}, {
		name: "IPv4 before IPv6, in any order of the variables",
		argv: "eth0|dhcp6-change",
		env: []string{
			"IP6_DOMAINS=v6.test", "IP6_NAMESERVERS=fd77::53 ::ffff:10.0.0.9",
			"IP4_DOMAINS=Example.Test.", "IP4_NAMESERVERS= 10.0.0.3  10.0.0.2 ", "DEVICE_IFACE=eth0",
		},
		want: `"eth0" dhcp6-change nameservers=10.0.0.3 10.0.0.2 fd77::53 10.0.0.9 domains=example.test v6.test`,
	}, {
		name: "DNS over TLS (1.52)",
		argv: "eth0|up",
		env:  []string{"IP4_NAMESERVERS=dns+tls://1.1.1.1#one.test dns+udp://10.0.0.2 dns+tls://10.0.0.3#a/b"},
		want: `"eth0" up nameservers=dns+tls://1.1.1.1#one.test 10.0.0.2 invalid="dns+tls://10.0.0.3#a/b"`,
	}, {
		name: "VPN lists are separate",
		argv: "tun0|vpn-up",
		env: []string{
			"DEVICE_IFACE=eth0", "DEVICE_IP_IFACE=eth0", "VPN_IP_IFACE=tun0", "CONNECTION_ID=corp",
			"IP4_NAMESERVERS=10.0.0.2", "VPN_IP4_NAMESERVERS=10.8.0.1", "VPN_IP6_NAMESERVERS=fe80::8",
			"IP4_DOMAINS=example.test", "VPN_IP4_DOMAINS=corp.test",
		},
		want: `"eth0" vpn-up connection=corp nameservers=10.0.0.2 domains=example.test` +
			` vpn=tun0 vpn-nameservers=10.8.0.1 fe80::8%tun0 vpn-domains=corp.test`,
	}, {
		name: "the first of duplicate variables counts",
		argv: "eth0|up",
		env:  []string{"IP4_NAMESERVERS=10.0.0.2", "IP4_NAMESERVERS=10.0.0.3"},
		want: `"eth0" up nameservers=10.0.0.2`,
	}, {
		name: "wildcard and routing-only domains are not searched",
		argv: "eth0|up",
		env:  []string{"IP4_DOMAINS=~corp.test ~. . a.test"},
		want: `"eth0" up domains=a.test`,
	}, {
		name: "link-local nameserver without an interface cannot be reached",
		argv: "none|up",
		env:  []string{"IP6_NAMESERVERS=fe80::1 fe80::1%eth1"},
		want: `"" up nameservers=fe80::1%eth1 invalid="fe80::1"`,
	}, {
		name: "an invalid variable",
		argv: "eth0|up",
		env:  []string{"", "=", "IP4_NAMESERVERS", "IP6_NAMESERVERS="},
		want: `"eth0" up`,
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			event, err := ParseEvent(strings.Split(tt.argv, "|"), tt.env)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want+"\n", describe(event)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestHostileWords: any word that a DHCP server can put into the environment becomes a valid value
// or is refused as a whole.
func TestHostileWords(t *testing.T) {
	tests := []struct {
		name, word, want string
	}{
		{"line feed", "10.0.0.2\nnameserver", `"10.0.0.2\nnameserver"`},
		{"line feed between addresses", "10.0.0.2\n10.0.0.3", `"10.0.0.2\n10.0.0.3"`},
		{"carriage return", "10.0.0.2\r", `"10.0.0.2\r"`},
		{"tab", "10.0.0.2\t10.0.0.3", `"10.0.0.2\t10.0.0.3"`},
		{"NUL", "10.0.0.2\x00", `"10.0.0.2\x00"`},
		{"escape sequence", "\x1b[2J10.0.0.2", `"\x1b[2J10.0.0.2"`},
		{"command substitution", "$(reboot)", `"$(reboot)"`},
		{"back quotes", "`reboot`", "\"`reboot`\""},
		{"semicolon", "10.0.0.2;reboot", `"10.0.0.2;reboot"`},
		{"pipe", "10.0.0.2|sh", `"10.0.0.2|sh"`},
		{"redirection", "10.0.0.2>/etc/passwd", `"10.0.0.2>/etc/passwd"`},
		{"glob", "*", `"*"`},
		{"glob of addresses", "10.0.0.?", `"10.0.0.?"`},
		{"quotes", `"10.0.0.2"`, `"\"10.0.0.2\""`},
		{"path", "../../etc/passwd", `"../../etc/passwd"`},
		{"comment", "10.0.0.2#", `"10.0.0.2#"`},
		{"dnsmasq route", "/example.test/10.0.0.2", `"/example.test/10.0.0.2"`},
		{"invalid UTF-8", "10.0.0.2\xff\xfe", `"10.0.0.2\xff\xfe"`},
		{"other script", "１０.0.0.2", `"\uff11\uff10.0.0.2"`},
		{"zone with shell characters", "fe80::1%$(id)", `"fe80::1%$(id)"`},
		{"zone with a line break", "fe80::1%eth0\n", `"fe80::1%eth0\n"`},
		{"host name", "dns.example.test", `"dns.example.test"`},
		{"long", strings.Repeat("1", 1000), `"` + strings.Repeat("1", 64) + `"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			event, err := ParseEvent([]string{"eth0", "up"}, []string{"IP4_NAMESERVERS=" + tt.word + " 10.0.0.9"})
			if err != nil {
				t.Fatal(err)
			}
			want := `"eth0" up nameservers=10.0.0.9 invalid=` + tt.want + "\n"
			if diff := cmp.Diff(want, describe(event)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	t.Run("as domains", func(t *testing.T) {
		for _, word := range []string{"a\nb", "$(id)", "a;b", "*.*x", "a/b", "\xff", "a..b", "ä.test", strings.Repeat("a.", 128)} {
			event, err := ParseEvent([]string{"eth0", "up"}, []string{"IP4_DOMAINS=" + word})
			if err != nil || len(event.Domains) != 0 || len(event.InvalidDomains) != 1 {
				t.Errorf("domain %q: %v, %+v", word, err, event)
			}
		}
	})
	t.Run("as names", func(t *testing.T) {
		hostile := "a\nb\x1b\xff" + strings.Repeat("c", 300)
		event, err := ParseEvent([]string{hostile, hostile}, []string{"CONNECTION_ID=" + hostile})
		if err != nil {
			t.Fatal(err)
		}
		want := "a�b��" + strings.Repeat("c", 255-len("a\nb\x1b\xff"))
		for _, got := range []string{event.Interface, event.IPInterface, event.Action, event.ConnectionID} {
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

func TestEventBounds(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("10.0.1.%d", i))
	}
	// The limit cuts through "10.0.0.53", which leaves the valid address "10.0.0.5".
	long := strings.Repeat("x ", (maxValue-8)/2) + "10.0.0.53"
	tests := []struct {
		name, value             string
		nameservers, invalid    int
		truncated, wantsFirstOK bool
	}{
		{"64 nameservers", strings.Join(many[:64], " "), 64, 0, false, true},
		{"100 nameservers", strings.Join(many, " "), 64, 0, true, true},
		{"100 refused words", strings.Repeat("x ", 100) + "10.0.1.0", 1, 64, true, true},
		{"64 KiB exactly", strings.Repeat(" ", maxValue-8) + "10.0.1.0", 1, 0, false, true},
		{"nameserver across the limit is dropped", long, 0, 64, true, false},
		{"one word of more than 64 KiB", strings.Repeat("1", maxValue+1), 0, 0, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := ParseEvent([]string{"eth0", "up"}, []string{"IP4_NAMESERVERS=" + tt.value, "VPN_IP4_NAMESERVERS=10.8.0.1"})
			if err != nil {
				t.Fatal(err)
			}
			if len(e.Nameservers) != tt.nameservers || len(e.Invalid) != tt.invalid || e.Truncated != tt.truncated {
				t.Errorf("got %d nameservers, %d refused, truncated %t", len(e.Nameservers), len(e.Invalid), e.Truncated)
			}
			if tt.wantsFirstOK && e.Nameservers[0].String() != many[0] {
				t.Errorf("got first nameserver %v", e.Nameservers[0])
			}
			if len(e.VPN.Nameservers) != 1 {
				t.Errorf("the device list counts against the VPN limit: %v", e.VPN)
			}
		})
	}
}

func TestEventConnection(t *testing.T) {
	event, err := ParseEvent([]string{"eth0", "up"}, []string{
		"CONNECTION_ID=Wired connection 1", "CONNECTION_UUID=2a92500f-48c5-4bc5-b85d-74a2d3477883",
	})
	if err != nil || event.ConnectionID != "Wired connection 1" || event.ConnectionUUID != "2a92500f-48c5-4bc5-b85d-74a2d3477883" {
		t.Errorf("got error %v, event %+v", err, event)
	}
}

func TestParseEventArguments(t *testing.T) {
	for _, argv := range [][]string{nil, {"eth0"}, {"eth0", "up", "more"}} {
		if _, err := ParseEvent(argv, nil); !errors.Is(err, errArguments) {
			t.Errorf("arguments %q: got error %v", argv, err)
		}
	}
}

func TestMatters(t *testing.T) {
	matters := "up down reapply dhcp4-change dhcp6-change dns-change vpn-up vpn-down connectivity-change hostname"
	for action := range strings.FieldsSeq(matters) {
		if !(Event{Action: action}).Matters() {
			t.Errorf("%q: got Matters false", action)
		}
	}
	for _, action := range []string{
		"", "pre-up", "pre-down", "vpn-pre-up", "vpn-pre-down", "device-add", "device-delete", "method-change", "UP", "up ",
	} {
		if (Event{Action: action}).Matters() {
			t.Errorf("%q: got Matters true", action)
		}
	}
}

// FuzzParseEvent: every field of an Event is valid for its type.
func FuzzParseEvent(f *testing.F) {
	f.Add("eth0", "up", "10.0.0.2 10.0.0.3", "fd77::53", "example.test", "corp")
	f.Add("none", "hostname", "", "", "", "")
	f.Add("eth0", "vpn-up", "10.0.0.2\n$(id) *", "fe80::1 fe80::1%eth0", "a..b ~c.test ~.", "a\nb")
	f.Add("eth\n0", "up", "dns+tls://1.1.1.1#a.test", "\xff", "\x00", "")
	f.Fuzz(func(t *testing.T, iface, action, servers4, servers6, domains, connection string) {
		e, err := ParseEvent([]string{iface, action}, []string{
			"IP4_NAMESERVERS=" + servers4, "IP6_NAMESERVERS=" + servers6, "IP4_DOMAINS=" + domains,
			"VPN_IP4_NAMESERVERS=" + servers6, "VPN_IP6_DOMAINS=" + domains, "VPN_IP_IFACE=" + iface,
			"CONNECTION_ID=" + connection,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, server := range append(e.Nameservers, e.VPN.Nameservers...) {
			if again, err := nameserver.Parse(server.String()); err != nil || again != server {
				t.Errorf("nameserver %q: %v, %v", server, again, err)
			}
			if addr := server.Addr.Addr(); addr.Is6() && addr.IsLinkLocalUnicast() && addr.Zone() == "" {
				t.Errorf("nameserver %q cannot be reached", server)
			}
		}
		for _, domain := range append(e.Domains, e.VPN.Domains...) {
			if name, err := dnsname.Parse(domain); err != nil || name.Relative() != domain || name.IsRoot() {
				t.Errorf("domain %q: %v", domain, err)
			}
		}
		for _, word := range append(e.Invalid, e.InvalidDomains...) {
			if len(word) > 2+10*maxRefused || strings.ContainsFunc(word, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("invalid refused word %s", word)
			}
		}
		for _, name := range []string{e.Interface, e.IPInterface, e.Action, e.ConnectionID, e.VPN.IPInterface} {
			if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) && r != unicode.ReplacementChar }) {
				t.Errorf("invalid name %q", name)
			}
		}
		for _, list := range []int{
			len(e.Nameservers), len(e.VPN.Nameservers), len(e.Domains), len(e.Invalid), len(e.InvalidDomains),
		} {
			if list > maxList {
				t.Errorf("got a list of %d entries", list)
			}
		}
	})
}
