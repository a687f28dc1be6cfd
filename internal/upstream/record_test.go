package upstream

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// addrs parses space-separated addresses.
func addrs(text string) []netip.Addr {
	var list []netip.Addr
	for word := range strings.FieldsSeq(text) {
		list = append(list, netip.MustParseAddr(word))
	}
	return list
}

func TestRecord(t *testing.T) {
	when := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	tests := []struct {
		name string
		in   Record
		want Record
	}{
		{"empty", Record{}, Record{Version: 1}},
		{
			"all",
			Record{Set: set("10.0.0.2 dns+tls://1.1.1.1#n", "vpn.example: 10.8.0.1"), Origin: Event, Detail: "d", Event: "eth0 up", Time: when},
			Record{Version: 1, Set: set("10.0.0.2 dns+tls://1.1.1.1#n", "vpn.example: 10.8.0.1"), Origin: Event, Detail: "d", Event: "eth0 up", Time: when},
		},
		{
			"addresses of this node",
			Record{Pointed: append(addrs("10.0.0.5 ::ffff:10.0.0.5 fe80::5%eth0 10.0.0.6"), netip.Addr{})},
			Record{Version: 1, Pointed: addrs("10.0.0.5 fe80::5 10.0.0.6")},
		},
		{
			"many addresses of this node",
			Record{Pointed: addrs("10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.7 10.0.0.8 10.0.0.9 10.0.0.10")},
			Record{Version: 1, Pointed: addrs("10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.7 10.0.0.8")},
		},
		{"arbitrary bytes", Record{Event: "\xff\n</script>"}, Record{Version: 1, Event: "\ufffd\n</script>"}},
		{"year above 9999", Record{Event: "e", Time: when.AddDate(9000, 0, 0)}, Record{Version: 1, Event: "e"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := tt.in.Bytes()
			got, err := ParseRecord(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, asText); diff != "" {
				t.Error(diff)
			}
			if again := got.Bytes(); string(again) != string(text) {
				t.Errorf("%s became %s", text, again)
			}
		})
	}
}

func TestPointedAt(t *testing.T) {
	old := Record{Pointed: addrs("10.0.0.5 10.0.0.6")}
	tests := []struct{ name, here, servers, want string }{
		{"same address", "10.0.0.5", "10.0.0.2", "10.0.0.5 10.0.0.6"},
		{"another", "10.0.0.7", "10.0.0.2", "10.0.0.7 10.0.0.5 10.0.0.6"},
		{"previous address", "10.0.0.6", "10.0.0.2", "10.0.0.6 10.0.0.5"},
		{"address with a zone", "fe80::5%eth0", "10.0.0.2", "fe80::5 10.0.0.5 10.0.0.6"},
		{"two", "10.0.0.7 169.254.20.10", "10.0.0.2", "10.0.0.7 169.254.20.10 10.0.0.5 10.0.0.6"},
		{"none", "", "10.0.0.2", "10.0.0.5 10.0.0.6"},
		{"old address is now a nameserver", "10.0.0.7", "10.0.0.6 10.0.0.2", "10.0.0.7 10.0.0.5"},
		{"nameserver with a zone", "10.0.0.5", "fe80::5%eth0 10.0.0.6", "10.0.0.5"},
		{"nameserver on this node at another port", "10.0.0.5", "10.0.0.6:5353 dns+tls://10.0.0.5", "10.0.0.5 10.0.0.6"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(addrs(tt.want), old.PointedAt(addrs(tt.here), servers(tt.servers)), asText); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(addrs("10.0.0.5 10.0.0.6"), old.Pointed, asText); diff != "" {
				t.Errorf("the record changed: %s", diff)
			}
		})
	}
}

func TestParseRecordErrors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "unexpected end of JSON input"},
		{"torn", `{"version":1,"servers":["10.0.`, "unexpected end of JSON input"},
		{"no version", `{}`, "version 0, expected 1"},
		{"later version", `{"version":2}`, "version 2, expected 1"},
		{"two values", `{"version":1}{}`, "invalid character"},
		{"not a nameserver", `{"version":1,"servers":["10.0.0.2","$(reboot)"]}`, "not an IP address"},
		{"not a domain", `{"version":1,"routes":[{"domain":"a b","servers":["10.0.0.2"]}]}`, "character that is not"},
		{"not an address of this node", `{"version":1,"servers":["10.0.0.2"],"pointed":["x"]}`, "unable to parse IP"},
		{"line feed in a zone id", `{"version":1,"servers":["fe80::1%a\nb"]}`, "zone id"},
		{"too long", strings.Repeat(" ", maxRecord) + `{"version":1}`, "longer than 1048576 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseRecord([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if !got.Set.IsEmpty() {
				t.Errorf("got %v with an error", got)
			}
		})
	}
	got, err := ParseRecord([]byte(`{"version":1,"servers":["", "10.0.0.2"],"later":true}`))
	if diff := cmp.Diff(Record{Version: 1, Set: set("10.0.0.2")}, got, asText); err != nil || diff != "" {
		t.Errorf("unknown key and empty server: %v %s", err, diff)
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"version":1,"servers":["10.0.0.2","dns+tls://1.1.1.1#n"],"routes":[{"domain":"a.","servers":["::1"]}],"time":"2026-02-03T04:05:06Z","pointed":["10.0.0.5","fe80::1%x",""]}`))
	f.Add([]byte(`{"version":1,"Servers":null,"routes":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseRecord(data)
		if err != nil {
			return
		}
		text := r.Bytes()
		again, err := ParseRecord(text)
		if err != nil || !again.Set.Equal(r.Set) || string(again.Bytes()) != string(text) {
			t.Fatalf("%s became %+v, %v", text, again, err)
		}
	})
}
