package nm

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

func TestDecodeConfig(t *testing.T) {
	withInvalid := func(c DNSConfig, invalid ...string) DNSConfig {
		c.Invalid = invalid
		return c
	}
	globalRoute := global("10.6.0.1", "~corp.test") // the same as routing-only
	tests := []struct {
		name  string
		entry properties
		want  DNSConfig
	}{{
		name: "connection",
		entry: propertiesOf("nameservers", []string{"10.0.0.2"}, "domains", []string{"a.test", "~b.test", "~."},
			"interface", "eth0", "priority", int32(-5), "vpn", false),
		want: config("eth0", -5, "10.0.0.2", "a.test ~b.test ~."),
	}, {
		name:  "VPN",
		entry: propertiesOf("nameservers", []string{"fe80::8"}, "interface", "tun0", "priority", int32(50), "vpn", true),
		want:  vpn("tun0", 50, "fe80::8%tun0", ""),
	}, {
		name:  "global for all names",
		entry: propertiesOf("nameservers", []string{"10.5.0.1"}, "priority", int32(100)),
		want:  global("10.5.0.1", ""),
	}, {
		name:  "global for a domain, which is not searched",
		entry: propertiesOf("nameservers", []string{"10.6.0.1"}, "domains", []string{"corp.test"}, "priority", int32(100)),
		want:  globalRoute,
	}, {
		name:  "missing interface is not global",
		entry: propertiesOf("nameservers", []string{"10.0.0.2", "fe80::1"}, "priority", int32(100), "vpn", false),
		want:  withInvalid(config("", 100, "10.0.0.2", ""), `"fe80::1"`),
	}, {
		name: "unsafe strings",
		entry: propertiesOf("nameservers", []string{"10.0.0.2\nnameserver 6.6.6.6", "$(id)", "", "10.0.0.2"},
			"domains", []string{"a b", "*.", "x\ny", "a.test"}, "interface", "eth0", "vpn", false),
		want: withInvalid(config("eth0", 0, "10.0.0.2", "* a.test"), `"10.0.0.2\nnameserver 6.6.6.6"`, `"$(id)"`, `""`),
	}, {
		name:  "empty",
		entry: properties{},
		want:  DNSConfig{Global: true},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decodeConfig(tt.entry)
			if err != nil {
				t.Fatal(err)
			}
			if diff := compareSnapshots(Snapshot{Configs: []DNSConfig{tt.want}}, Snapshot{Configs: []DNSConfig{got}}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAsError(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	remote := func(name string) error { return dbus.Error{Name: name} }
	tests := []struct {
		name string
		ctx  context.Context
		err  error
		want error
	}{
		{"none", t.Context(), nil, nil},
		{"no error, cancelled", cancelled, nil, nil},
		{"cancelled context wins over EOF", cancelled, io.EOF, context.Canceled},
		{"bus closed", t.Context(), io.EOF, ErrNoBus},
		{"closed locally", t.Context(), dbus.ErrClosed, ErrNoBus},
		{"service is not activatable", t.Context(), remote("org.freedesktop.DBus.Error.ServiceUnknown"), ErrNotRunning},
		{"service has no owner", t.Context(), remote("org.freedesktop.DBus.Error.NameHasNoOwner"), ErrNotRunning},
		{"left", t.Context(), remote("org.freedesktop.DBus.Error.NoReply"), ErrNotRunning},
		{"refused", t.Context(), remote("org.freedesktop.DBus.Error.AccessDenied"), ErrAnswer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := asError(tt.ctx, tt.err)
			if (got == nil) != (tt.want == nil) || !errors.Is(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// FuzzDecodeConfig: data from D-Bus becomes a valid value or is refused.
func FuzzDecodeConfig(f *testing.F) {
	f.Add("10.0.0.2", "example.test", "eth0", int32(100))
	f.Add("fe80::1", "~.", "eth0", int32(-1))
	f.Add("fe80::1", "~", "a b$(id)", int32(0))
	f.Add("dns+tls://1.1.1.1#x", "\x00", "\n", int32(0))
	f.Fuzz(func(t *testing.T, server, domain, iface string, priority int32) {
		c, err := decodeConfig(propertiesOf("nameservers", []string{server}, "domains", []string{domain},
			"interface", iface, "priority", priority, "vpn", false))
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Nameservers)+len(c.Invalid) != 1 || c.Priority != int(priority) {
			t.Errorf("got %+v", c)
		}
		for _, s := range c.Nameservers {
			if again, err := nameserver.Parse(s.String()); err != nil || again != s {
				t.Errorf("nameserver %q: %v, %v", s, again, err)
			}
		}
		for _, d := range c.Domains {
			again, err := dnsname.Parse(d.Name.String())
			if diff := cmp.Diff(d.Name.String(), again.String()); err != nil || diff != "" {
				t.Errorf("domain %q: %v, %s", d.Name, err, diff)
			}
		}
	})
}
