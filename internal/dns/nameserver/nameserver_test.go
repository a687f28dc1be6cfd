package nameserver

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, in string
		text     string // String()
		dnsmasq  string // Dnsmasq(); "" for TLS
		err      error
	}{
		{name: "IPv4", in: "10.0.0.2", text: "10.0.0.2", dnsmasq: "10.0.0.2"},
		{name: "IPv4 with port 53", in: "10.0.0.2:53", text: "10.0.0.2", dnsmasq: "10.0.0.2"},
		{name: "IPv4 with port", in: "10.0.0.2:8053", text: "10.0.0.2:8053", dnsmasq: "10.0.0.2#8053"},
		{name: "dnsmasq IPv4", in: "10.0.0.2#5353", text: "10.0.0.2:5353", dnsmasq: "10.0.0.2#5353"},
		{name: "IPv6", in: "2001:DB8::1", text: "2001:db8::1", dnsmasq: "2001:db8::1"},
		{name: "dnsmasq IPv6", in: "2001:db8::1#5353", text: "[2001:db8::1]:5353", dnsmasq: "2001:db8::1#5353"},
		{name: "IPv6 in brackets", in: "[::1]", text: "::1", dnsmasq: "::1"},
		{name: "IPv6 in brackets with port", in: "[::1]:53", text: "::1", dnsmasq: "::1"},
		{name: "an IPv6 address, not a port", in: "::1:53", text: "::1:53", dnsmasq: "::1:53"},
		{name: "IPv4-mapped", in: "::ffff:10.0.0.2", text: "10.0.0.2", dnsmasq: "10.0.0.2"},
		{name: "zone id", in: "fe80::1%eth0", text: "fe80::1%eth0", dnsmasq: "fe80::1%eth0"},
		{name: "zone id that is an index", in: "fe80::1%2", text: "fe80::1%2", dnsmasq: "fe80::1%2"},
		{name: "zone id of a VLAN", in: "fe80::1%br-ex.100", text: "fe80::1%br-ex.100", dnsmasq: "fe80::1%br-ex.100"},
		{name: "zone id and port", in: "fe80::1%eth0#5353", text: "[fe80::1%eth0]:5353", dnsmasq: "fe80::1%eth0#5353"},
		{name: "zone id in brackets", in: "[fe80::1%eth0]:5353", text: "[fe80::1%eth0]:5353", dnsmasq: "fe80::1%eth0#5353"},
		// Our own address with a zone id must not be mistaken for another server.
		{name: "zone id on a global address", in: "2001:db8::1%eth0", text: "2001:db8::1", dnsmasq: "2001:db8::1"},
		{name: "zone id on an IPv4-mapped link-local address", in: "::ffff:169.254.1.1%eth0", text: "169.254.1.1", dnsmasq: "169.254.1.1"},
		{name: "TLS", in: "dns+tls://1.1.1.1", text: "dns+tls://1.1.1.1"},
		{name: "TLS with name", in: "dns+tls://1.1.1.1#cloudflare-dns.com", text: "dns+tls://1.1.1.1#cloudflare-dns.com"},
		{name: "TLS with port and name", in: "DNS+TLS://[2620:fe::fe]:8853#DNS.Quad9.net.", text: "dns+tls://[2620:fe::fe]:8853#dns.quad9.net"},
		{name: "TLS with default port", in: "dns+tls://[2620:fe::fe]:853#n", text: "dns+tls://[2620:fe::fe]#n"},
		{name: "TLS at port 53", in: "dns+tls://1.1.1.1:53", text: "dns+tls://1.1.1.1:53"},
		{name: "TLS, IPv6 without brackets", in: "dns+tls://2620:fe::fe", text: "dns+tls://[2620:fe::fe]"},
		{name: "UDP", in: "dns+udp://10.0.0.2", text: "10.0.0.2", dnsmasq: "10.0.0.2"},
		{name: "UDP with port", in: "dns+udp://[2001:db8::1]:5353", text: "[2001:db8::1]:5353", dnsmasq: "2001:db8::1#5353"},

		{name: "empty", in: "", err: ErrAddress},
		{name: "host name", in: "dns.example", err: ErrAddress},
		{name: "host name with TLS", in: "dns+tls://dns.example", err: ErrAddress},
		{name: "unknown scheme", in: "https://1.1.1.1/dns-query", err: ErrAddress},
		{name: "UDP with name", in: "dns+udp://10.0.0.2#name", err: ErrAddress},
		{name: "leading zeros: octal to inet_aton", in: "010.0.0.2", err: ErrAddress},
		{name: "short form of inet_aton", in: "10.2", err: ErrAddress},
		{name: "prefix", in: "10.0.0.2/24", err: ErrAddress},
		{name: "blank before", in: " 10.0.0.2", err: ErrAddress},
		{name: "blank after", in: "10.0.0.2 ", err: ErrAddress},
		{name: "two addresses", in: "10.0.0.2 10.0.0.3", err: ErrAddress},
		{name: "IPv4 in brackets", in: "[10.0.0.2]:53", err: ErrAddress},
		{name: "open bracket", in: "[::1", err: ErrAddress},
		{name: "text after bracket", in: "[::1]53", err: ErrAddress},
		{name: "64 KB", in: strings.Repeat("1", 64<<10), err: ErrAddress},
		{name: "line feed", in: "10.0.0.2\nserver=8.8.8.8", err: ErrAddress},
		{name: "empty port", in: "10.0.0.2:", err: ErrPort},
		{name: "empty dnsmasq port", in: "10.0.0.2#", err: ErrPort},
		{name: "port 0", in: "10.0.0.2:0", err: ErrPort},
		{name: "port too high", in: "10.0.0.2:65536", err: ErrPort},
		{name: "port with a sign", in: "10.0.0.2#+53", err: ErrPort},
		{name: "port with a line feed", in: "10.0.0.2#53\n", err: ErrPort},
		{name: "port that is a name", in: "10.0.0.2#dns", err: ErrPort},
		{name: "empty zone id", in: "fe80::1%", err: ErrAddress},
		{name: "zone id with a line feed", in: "fe80::1%eth0\nserver=8.8.8.8", err: ErrZone},
		{name: "zone id with shell", in: "fe80::1%$(reboot)", err: ErrZone},
		{name: "zone id with a blank", in: "fe80::1%a b", err: ErrZone},
		{name: "zone id with a slash", in: "fe80::1%../x", err: ErrZone},
		{name: "zone id that is a directory", in: "fe80::1%..", err: ErrZone},
		{name: "zone id longer than an interface name", in: "fe80::1%abcdefghijklmnop", err: ErrZone},
		{name: "odd zone id on a global address", in: "2001:db8::1%;", err: ErrZone},
		{name: "empty TLS name", in: "dns+tls://1.1.1.1#", err: ErrName},
		{name: "TLS name of dots", in: "dns+tls://1.1.1.1#..", err: ErrName},
		{name: "TLS name with a line feed", in: "dns+tls://1.1.1.1#a\nb", err: ErrName},
		{name: "TLS name with a second hash", in: "dns+tls://1.1.1.1#a#b", err: ErrName},
		{name: "TLS name too long", in: "dns+tls://1.1.1.1#" + strings.Repeat("a.", 128), err: ErrName},
		{name: "TLS label too long", in: "dns+tls://1.1.1.1#" + strings.Repeat("a", 64), err: ErrName},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.in)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if got.String() != tt.text || got.Dnsmasq() != tt.dnsmasq {
				t.Errorf("got %q and for dnsmasq %q, want %q and %q", got, got.Dnsmasq(), tt.text, tt.dnsmasq)
			}
			if err == nil && got.Plain() == got.TLS {
				t.Errorf("Plain() = %v with TLS %v", got.Plain(), got.TLS)
			}
			if err != nil && (!got.IsZero() || len(err.Error()) > 2000) {
				t.Errorf("got %v with an error of %d bytes", got, len(err.Error()))
			}
		})
	}
}

func TestFromAddr(t *testing.T) {
	tests := []struct {
		name string
		in   netip.Addr
		want string
	}{
		{"zero", netip.Addr{}, ""},
		{"IPv4", netip.MustParseAddr("10.0.0.2"), "10.0.0.2"},
		{"IPv4-mapped", netip.MustParseAddr("::ffff:10.0.0.2"), "10.0.0.2"},
		{"zone id", netip.MustParseAddr("fe80::1%eth0"), "fe80::1%eth0"},
		{"zone id on a global address", netip.MustParseAddr("2001:db8::1%eth0"), "2001:db8::1"},
		{"zone id with a line feed", netip.MustParseAddr("fe80::1").WithZone("a\nb"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := FromAddr(tt.in)
			if got.String() != tt.want || got.Plain() != (tt.want != "") {
				t.Errorf("got %q, Plain() = %v; want %q", got, got.Plain(), tt.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	for _, in := range []string{"", "10.0.0.2", "[fe80::1%eth0]:5353", "dns+tls://[2620:fe::fe]:8853#dns.quad9.net"} {
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var server Server
		if err := json.Unmarshal(text, &server); err != nil {
			t.Fatal(err)
		}
		if back, err := json.Marshal(server); err != nil || string(back) != string(text) {
			t.Errorf("%s came back as %s, %v", text, back, err)
		}
	}
	var server Server
	if err := json.Unmarshal([]byte(`"dns.example"`), &server); !errors.Is(err, ErrAddress) {
		t.Errorf("error %v, want %v", err, ErrAddress)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"10.0.0.2", "10.0.0.2:53", "10.0.0.2#5353", "2001:db8::1#5353", "fe80::1%eth0", "[fe80::1%eth0]:53",
		"::ffff:1.2.3.4%x", "dns+tls://1.1.1.1#name", "dns+tls://[2620:fe::fe]:853#n", "dns+udp://10.0.0.2", "10.0.0.2\n", "\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		server, err := Parse(in)
		if err != nil {
			if !server.IsZero() {
				t.Fatalf("error %v with %v", err, server)
			}
			return
		}
		text := server.String()
		if again, err := Parse(text); err != nil || again != server {
			t.Fatalf("%q became %v, %v", text, again, err)
		}
		if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:[]%+/#") != "" {
			t.Fatalf("%q has a character that is unsafe in files", text)
		}
		if server.Plain() {
			if again, err := Parse(server.Dnsmasq()); err != nil || again != server {
				t.Fatalf("%q became %v, %v", server.Dnsmasq(), again, err)
			}
		} else if server.Dnsmasq() != "" {
			t.Fatalf("%v is %q to dnsmasq", server, server.Dnsmasq())
		}
		if addr := server.Addr.Addr(); server.Addr.Port() == 0 || addr.Is4In6() || addr.Zone() != "" && !linkLocal(addr) {
			t.Fatalf("%v is not canonical", server)
		}
	})
}

func TestMustParse(t *testing.T) {
	if got := MustParse("10.0.0.2#5353").String(); got != "10.0.0.2:5353" {
		t.Errorf("got %q", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	MustParse("ns.example")
}
