package nameserver

import (
	"errors"
	"testing"
)

func TestParseDnsmasq(t *testing.T) {
	tests := []struct {
		text, want string // String(); "" with an error
		err        error
	}{
		{text: "10.0.0.2", want: "10.0.0.2"},
		{text: "10.0.0.2#5353", want: "10.0.0.2:5353"},
		{text: "2001:db8::1", want: "2001:db8::1"},
		{text: "2001:db8::1#5353", want: "[2001:db8::1]:5353"},
		{text: "fe80::1%eth0", want: "fe80::1%eth0"},
		{text: "fe80::1%eth0#5353", want: "[fe80::1%eth0]:5353"},
		{text: "10.0.0.2@eth1", want: "10.0.0.2@eth1"},
		{text: "10.0.0.2#5353@eth1", want: "10.0.0.2:5353@eth1"},
		{text: "10.0.0.2@192.0.2.1", want: "10.0.0.2@192.0.2.1"},
		{text: "10.0.0.2@eth1@192.0.2.1", want: "10.0.0.2@eth1@192.0.2.1"},
		{text: "2001:db8::1@2001:db8::2", want: "2001:db8::1@2001:db8::2"},
		{text: "", err: ErrAddress},
		{text: "#", err: ErrAddress},
		{text: "dns.example", err: ErrAddress},
		{text: "10.1", err: ErrAddress}, // dnsmasq reads 10.0.0.1
		{text: "10.0.0.2:53", err: ErrAddress},
		{text: "[2001:db8::1]:53", err: ErrAddress},
		{text: "dns+tls://1.1.1.1", err: ErrAddress},
		{text: "10.0.0.2\n", err: ErrAddress},
		{text: "10.0.0.2#", err: ErrPort}, // dnsmasq reads port 0
		{text: "10.0.0.2#0", err: ErrPort},
		{text: "10.0.0.2#65536", err: ErrPort},
		{text: "10.0.0.2@192.0.2.1@eth1", err: ErrAddress}, // source before interface
		{text: "10.0.0.2@192.0.2.1#4000", err: ErrSourcePort},
		{text: "10.0.0.2@eth1@192.0.2.1#4000", err: ErrSourcePort},
		{text: "10.0.0.2@2001:db8::2", err: ErrSource},
		{text: "2001:db8::1@10.0.0.2", err: ErrSource},
		{text: "10.0.0.2@eth 1", err: ErrInterface},
		{text: "10.0.0.2@a-name-too-long-", err: ErrInterface},
		{text: "10.0.0.2@eth1@", err: ErrAddress},
		{text: "10.0.0.2@@192.0.2.1", err: ErrInterface},
		{text: "10.0.0.2@", err: ErrInterface},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := ParseDnsmasq(tt.text)
			if got.String() != tt.want || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Errorf("got %q, %v", got, err)
			}
			if again, err := ParseDnsmasq(got.Dnsmasq()); tt.err == nil && (again != got || err != nil) {
				t.Errorf("%q is parsed as %q, %v", got.Dnsmasq(), again, err)
			}
		})
	}
}

// FuzzParseDnsmasq: a parsed server survives a round trip in dnsmasq's syntax and in ours, and is
// safe in both.
func FuzzParseDnsmasq(f *testing.F) {
	for _, text := range []string{"10.0.0.2#53@eth0@192.0.2.1", "fe80::1%eth0", "10.0.0.2@eth1", "@", "10.0.0.2@"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		server, err := ParseDnsmasq(text)
		if err != nil {
			return
		}
		if again, err := ParseDnsmasq(server.Dnsmasq()); again != server || err != nil {
			t.Errorf("%q: %q, %v", server.Dnsmasq(), again, err)
		}
		var again Server
		if err := again.UnmarshalText([]byte(server.String())); again != server || err != nil {
			t.Errorf("%q: %q, %v", server, again, err)
		}
		for _, c := range []byte(server.Dnsmasq()) {
			if c <= ' ' || c > '~' {
				t.Errorf("%q has the byte %#x", server.Dnsmasq(), c)
			}
		}
	})
}
