package upstream

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// servers parses space-separated nameservers.
func servers(text string) []nameserver.Server {
	var list []nameserver.Server
	for _, word := range strings.Fields(text) {
		list = append(list, nameserver.MustParse(word))
	}
	return list
}

// set parses default servers, and routes as "domain: servers".
func set(defaults string, routes ...string) Set {
	s := Set{Servers: servers(defaults)}
	for _, route := range routes {
		name, list, _ := strings.Cut(route, ":")
		s.Routes = append(s.Routes, Route{Domain: dnsname.MustParse(name), Servers: servers(list)})
	}
	return s
}

var asText = cmp.Options{
	cmp.Transformer("name", func(n dnsname.Name) string { return n.String() }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Transformer("server", func(s nameserver.Server) string { return s.String() }),
}

func TestNormalize(t *testing.T) {
	tests := []struct {
		name     string
		in, want Set
	}{
		{"empty", Set{}, Set{}},
		{"duplicates", set("10.0.0.3 10.0.0.2 10.0.0.3:53"), set("10.0.0.3 10.0.0.2")},
		{"another port is another server", set("10.0.0.3 10.0.0.3:5353"), set("10.0.0.3 10.0.0.3:5353")},
		{"TLS is another server", set("1.1.1.1 dns+tls://1.1.1.1:53"), set("1.1.1.1 dns+tls://1.1.1.1:53")},
		{
			"routes", set("", "b.example: 10.0.0.2 10.0.0.2", "a.example: 10.0.0.3", "B.example.: 10.0.0.4"),
			set("", "a.example: 10.0.0.3", "b.example: 10.0.0.2 10.0.0.4"),
		},
		{"routes without servers or domain", Set{Routes: []Route{
			{Domain: set("", "a.example:").Routes[0].Domain},
			{Servers: servers("10.0.0.2")},
		}}, Set{}},
		{"route for the root", set("10.0.0.2", ".: 10.0.0.3 10.0.0.2"), set("10.0.0.2 10.0.0.3")},
		{"zero server", Set{Servers: make([]nameserver.Server, 1)}, Set{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.in.Normalize()
			if diff := cmp.Diff(tt.want, got, asText); diff != "" {
				t.Error(diff)
			}
			if again := got.Normalize(); !cmp.Equal(again, got, asText) {
				t.Errorf("normalized again: got %v", again)
			}
			if !tt.in.Equal(got) || got.IsEmpty() != (len(got.Servers)+len(got.Routes) == 0) {
				t.Error("the normalized set is not equal")
			}
		})
	}
}

func TestEqual(t *testing.T) {
	base := set("10.0.0.2 10.0.0.3", "a.example: 10.0.0.4 10.0.0.5", "b.example: 10.0.0.6")
	tests := []struct {
		name              string
		other             Set
		equal, sameMember bool
	}{
		{"itself", base, true, true},
		{"order of routes", set("10.0.0.2 10.0.0.3", "b.example: 10.0.0.6", "a.example: 10.0.0.4 10.0.0.5"), true, true},
		{"order of servers", set("10.0.0.3 10.0.0.2", "a.example: 10.0.0.4 10.0.0.5", "b.example: 10.0.0.6"), false, true},
		{"order of a route's servers", set("10.0.0.2 10.0.0.3", "a.example: 10.0.0.5 10.0.0.4", "b.example: 10.0.0.6"), false, true},
		{"one server fewer", set("10.0.0.2", "a.example: 10.0.0.4 10.0.0.5", "b.example: 10.0.0.6"), false, false},
		{"one route fewer", set("10.0.0.2 10.0.0.3", "a.example: 10.0.0.4 10.0.0.5"), false, false},
		{"another domain", set("10.0.0.2 10.0.0.3", "a.example: 10.0.0.4 10.0.0.5", "c.example: 10.0.0.6"), false, false},
		{"another port", set("10.0.0.2 10.0.0.3:54", "a.example: 10.0.0.4 10.0.0.5", "b.example: 10.0.0.6"), false, false},
		{"empty", Set{}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if base.Equal(tt.other) != tt.equal || tt.other.Equal(base) != tt.equal {
				t.Errorf("Equal: want %v", tt.equal)
			}
			if base.SameMembers(tt.other) != tt.sameMember || tt.other.SameMembers(base) != tt.sameMember {
				t.Errorf("SameMembers: want %v", tt.sameMember)
			}
		})
	}
	if want := servers("10.0.0.2 10.0.0.3"); !cmp.Equal(base.Servers, want, asText) {
		t.Errorf("comparing changed the order: %v", base.Servers)
	}
}

// hostile are strings that a DHCP server, a VPN or a damaged file may contain.
var hostile = map[string]string{
	"line feed":        "10.0.0.2\nserver=8.8.8.8",
	"carriage return":  "10.0.0.2\rserver=8.8.8.8",
	"CRLF":             "10.0.0.2\r\nnameserver 8.8.8.8",
	"vertical tab":     "10.0.0.2\vserver=8.8.8.8",
	"NEL":              "10.0.0.2\u0085server=8.8.8.8",
	"line separator":   "10.0.0.2\u2028server=8.8.8.8",
	"NUL":              "10.0.0.2\x00",
	"command":          "$(reboot)",
	"backticks":        "`reboot`",
	"semicolon":        "10.0.0.2;reboot",
	"pipe":             "10.0.0.2|reboot",
	"glob":             "/etc/*",
	"question marks":   "10.0.0.?",
	"quotes":           `"10.0.0.2"`,
	"variable":         "${IFS}",
	"redirect":         "10.0.0.2>/etc/passwd",
	"blank":            "10.0.0.2 8.8.8.8",
	"option":           "--conf-file=/tmp/x",
	"interface":        "10.0.0.2@eth0",
	"zone line feed":   "fe80::1%eth0\nserver=8.8.8.8",
	"zone command":     "fe80::1%$(reboot)",
	"zone traversal":   "fe80::1%../../x",
	"invalid UTF-8":    "\xff\xfe10.0.0.2",
	"64 KB":            strings.Repeat("10.0.0.2 ", 64<<10/9),
	"64 KB no blank":   strings.Repeat("A", 64<<10),
	"TLS name":         "dns+tls://1.1.1.1#a\nserver=8.8.8.8",
	"terminal escape":  "\x1b]0;x\x07",
	"format":           "%s%n%d",
	"bidi":             "\u202e2.0.0.01",
	"dnsmasq's domain": "/evil.example/8.8.8.8",
}

// TestHostileTextIsNeverWritten: however hostile text gets into a Set, the rendered files contain
// only the good server.
func TestHostileTextIsNeverWritten(t *testing.T) {
	good := servers("192.0.2.1")[0]
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			s := Set{Servers: []nameserver.Server{good}}
			if server, err := nameserver.Parse(text); err == nil {
				t.Errorf("got the nameserver %v", server)
			}
			addr := netip.MustParseAddr("fe80::1").WithZone(text)
			byHand := nameserver.Server{Addr: netip.AddrPortFrom(addr, 53)}
			s.Servers = append(s.Servers, nameserver.FromAddr(addr), byHand, nameserver.Server{Addr: byHand.Addr, TLS: true, Name: text})
			s.Routes = append(s.Routes, Route{Domain: dnsname.Root(), Servers: s.Servers})
			if domain, err := dnsname.Parse(text); err == nil {
				s.Routes = append(s.Routes, Route{Domain: domain, Servers: []nameserver.Server{byHand}})
			}
			if got, want := string(s.DnsmasqConf()), "server=192.0.2.1\n"; got != want {
				t.Errorf("DnsmasqConf() = %q, want %q", got, want)
			}
			if got, want := string(s.ResolvConf()), "nameserver 192.0.2.1\n"; got != want {
				t.Errorf("ResolvConf() = %q, want %q", got, want)
			}
			selection := Select([]Candidate{{Origin: Event, Set: s, Invalid: []string{text}}}, nil)
			if got, want := string(selection.Set.ResolvConf()), "nameserver 192.0.2.1\n"; got != want {
				t.Errorf("after Select ResolvConf() = %q, want %q", got, want)
			}
			for _, refused := range selection.Refused {
				if refused.Server.IsZero() && len(refused.Text) > maxQuoted+len("...") {
					t.Errorf("got a refused text of %d bytes", len(refused.Text))
				}
			}
		})
	}
}
