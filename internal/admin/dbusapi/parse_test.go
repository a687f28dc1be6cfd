package dbusapi

import (
	"slices"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

// texts formats rules like SetDomainServers.
func texts(rules []dnsmasqconf.Rule) string {
	var all []string
	for _, rule := range rules {
		all = append(all, rule.String())
	}
	return strings.Join(all, " ")
}

// TestParse checks how the three methods parse their arguments. The daemon's tests compare that
// with dnsmasq.
func TestParse(t *testing.T) {
	v := dbus.MakeVariant
	ipv6 := []any{byte(0x20), byte(1), byte(0xd), byte(0xb8)}
	for range 11 {
		ipv6 = append(ipv6, byte(0))
	}
	ipv6 = append(ipv6, byte(1))
	tests := []struct {
		name  string
		parse func([]any) ([]dnsmasqconf.Rule, error)
		body  []any
		want  string // rules, or the error after "!"
	}{
		{"a number", parseServers, []any{uint32(167837953)}, "10.1.1.1"},
		{"numbers and domains", parseServers, []any{uint32(1), uint32(167837953), "a.example", "b.example", uint32(167837954)}, "0.0.0.1 /a.example/10.1.1.1 /b.example/10.1.1.1 10.1.1.2"},
		{"16 bytes", parseServers, append(slices.Clone(ipv6), "a.example"), "/a.example/2001:db8::1"},
		{"as introspected", parseServers, []any{[]dbus.Variant{v(uint32(167837953)), v("a.example")}}, "/a.example/10.1.1.1"},
		{"as introspected, empty", parseServers, []any{[]dbus.Variant{}}, ""},
		{"an array of 16 bytes", parseServers, []any{[]byte("0123456789abcdef")}, "3031:3233:3435:3637:3839:6162:6364:6566"},
		{"a mapped address", parseServers, []any{[]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x01\x01\x01")}, "10.1.1.1"},
		{"no address for a domain", parseServers, []any{uint32(0), "a.example"}, "/a.example/"},
		{"no address at all", parseServers, []any{uint32(0)}, ""},
		{"nothing", parseServers, nil, "!Failed to initialize dbus message iter"},
		{"a domain alone", parseServers, []any{"a.example"}, "!Expected an address before the domain 'a.example'"},
		{"too few bytes", parseServers, []any{byte(1), byte(2)}, "!Invalid IP address: 2 bytes, not 16"},
		{"bytes, then something else", parseServers, []any{byte(1), uint32(1)}, "!Invalid IP address: 1 bytes, not 16"},
		{"an array of too few bytes", parseServers, []any{[]byte("0123")}, "!Invalid IP address: 4 bytes, not 16"},
		{"another type", parseServers, []any{uint32(1), true}, "!Expected a UINT32 or 16 BYTEs for an address, STRINGs for its domains"},
		{"unspecified", parseServers, []any{make([]byte, 16)}, "!Invalid IP address '::': unspecified"},
		{"a wrong domain", parseServers, []any{uint32(1), "a b"}, "!Invalid domain 'a b': character that is not a letter, digit, '-' or '_'"},

		{"lists", parseServersEx, []any{[][]string{{"10.0.0.1"}, {"10.0.0.2#5353", "a.example", "b.example"}}}, "10.0.0.1 /a.example/10.0.0.2#5353 /b.example/10.0.0.2#5353"},
		{"empty lists", parseServersEx, []any{[][]string{}}, ""},
		{"an empty list in it", parseServersEx, []any{[][]string{{}}}, "!Expected IP address"},
		{"an empty address", parseServersEx, []any{[][]string{{"", "a.example"}}}, "!Empty IP address"},
		{"the address is named", parseServersEx, []any{[][]string{{"bad", "a.example"}}}, "!Invalid IP address 'bad': not an IP address"},
		{"a list of strings", parseServersEx, []any{[]string{"x"}}, "!Expected array of string arrays"},
		{"lists of numbers", parseServersEx, []any{[][]int32{{1}}}, "!Expected inner array of strings"},
		{"no lists", parseServersEx, nil, "!Failed to initialize dbus message iter"},
		{"locally", parseServersEx, []any{[][]string{{"0.0.0.0", "a.example"}}}, "/a.example/"},

		{"texts", parseDomainServers, []any{[]string{"10.0.0.1#5353", "/a.example/b.example/10.0.0.2", "/c.example/", "/d.example/#"}}, "10.0.0.1#5353 /a.example/10.0.0.2 /b.example/10.0.0.2 /c.example/ /d.example/#"},
		{"by an interface", parseDomainServers, []any{[]string{"10.0.0.1@eth1", "/a.example/10.0.0.2#53@192.0.2.1"}}, "10.0.0.1@eth1 /a.example/10.0.0.2@192.0.2.1"},
		{"every name", parseDomainServers, []any{[]string{"//10.0.0.1", "/*/10.0.0.2", "/./10.0.0.3"}}, "10.0.0.1 10.0.0.2 10.0.0.3"},
		{"no name", parseDomainServers, []any{[]string{"//"}}, "//"},
		{"the standard servers", parseDomainServers, []any{[]string{"#"}}, "#"},
		{"dots and case", parseDomainServers, []any{[]string{"/.A.Example./10.0.0.1"}}, "/a.example/10.0.0.1"},
		{"other scripts", parseDomainServers, []any{[]string{"/Bücher.example/10.0.0.1"}}, "/xn--bcher-kva.example/10.0.0.1"},
		{"underscores", parseDomainServers, []any{[]string{"/_tcp.example/10.0.0.1"}}, "/_tcp.example/10.0.0.1"},
		{"empty strings", parseDomainServers, []any{[]string{}}, ""},
		{"behind the list", parseDomainServers, []any{[]string{"10.0.0.1"}, "x"}, "10.0.0.1"},
		{"no list", parseDomainServers, []any{"x"}, "!Expected array of string"},
		{"no argument", parseDomainServers, nil, "!Failed to initialize dbus message iter"},
		{"an empty string", parseDomainServers, []any{[]string{"10.0.0.1", ""}}, "!Empty string"},
		{"no end", parseDomainServers, []any{[]string{"/a.example"}}, "!No domain terminator 'a.example'"},
		{"a slash", parseDomainServers, []any{[]string{"/"}}, "!No domain terminator ''"},
		{"a network", parseDomainServers, []any{[]string{"10.0.0.0/8"}}, "!No domain terminator '8'"},
		{"a host's name", parseDomainServers, []any{[]string{"/a.example/localhost"}}, "!Invalid IP address 'localhost': not an IP address"},
		{"the second of three", parseDomainServers, []any{[]string{"10.0.0.1", "bad!", "worse!"}}, "!Invalid IP address 'bad!': not an IP address"},
		{"port 0", parseDomainServers, []any{[]string{"10.0.0.1#0"}}, "!Invalid IP address '10.0.0.1#0': port outside 1 to 65535"},
		{"a source port", parseDomainServers, []any{[]string{"10.0.0.1@192.0.2.1#53"}}, "!Invalid IP address '10.0.0.1@192.0.2.1#53': a fixed source port makes responses easy to forge"},
		{"a group", parseDomainServers, []any{[]string{"224.0.0.251"}}, "!Invalid IP address '224.0.0.251': not one host's address"},
		{"a wildcard", parseDomainServers, []any{[]string{"/*a.example/10.0.0.1"}}, "!Invalid domain '*a.example': a wildcard; a domain includes all names below it anyway"},
		{"an empty label", parseDomainServers, []any{[]string{"/a..example/10.0.0.1"}}, "!Invalid domain 'a..example': label is not 1 to 63 bytes long"},
		{"control characters are not sent back", parseDomainServers, []any{[]string{"10.0.0.1\r\n"}}, "!Invalid IP address '10.0.0.1??': not an IP address"},
		{"too many", parseDomainServers, []any{slices.Repeat([]string{"10.0.0.1"}, dnsmasqconf.MaxRules+1)}, "!" + dnsmasqconf.ErrTooMany.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules, err := tt.parse(tt.body)
			got := texts(rules)
			if err != nil {
				got += "!" + err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestCallerText(t *testing.T) {
	for want, c := range map[string]Caller{
		"":                   {},
		"SetServers by :1.7": {Method: "SetServers", Name: ":1.7"},
		"X by sh (pid 8, uid 0, a.service, :1.7)": {Method: "X", Name: ":1.7", Known: true, PID: 8, Comm: "sh", Unit: "a.service"},
		"X by pid 8 (uid 5, :1.7)":                {Method: "X", Name: ":1.7", Known: true, PID: 8, UID: 5},
	} {
		if got := c.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
