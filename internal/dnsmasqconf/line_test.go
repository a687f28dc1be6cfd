package dnsmasqconf

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// TestWhere: each kind of record has its place.
func TestWhere(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hosts := write("etc/hosts", "# of this host\n192.0.2.7 seven.corp seven\n")
	conf := write("etc/dnsmasq.d/a.conf", `host-record=one.corp,192.0.2.1
cname=alias.corp,one.corp
txt-record=text.corp,x
srv-host=_a._tcp.corp,one.corp
ptr-record=9.2.0.192.in-addr.arpa,one.corp
mx-host=mail.corp,one.corp
dns-rr=raw.corp,65280,00
address=/apps.corp/192.0.2.8
address=/long.apps.corp/192.0.2.9
address=//192.0.2.10
`)
	config, err := NewReader(DefaultPaths(dir)).Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		file string // "" if there is no place
		line int
	}{
		{"seven.corp", hosts, 2},
		{"seven", hosts, 2},
		{"7.2.0.192.in-addr.arpa", hosts, 2},
		{"one.corp", conf, 1},
		{"alias.corp", conf, 2},
		{"text.corp", conf, 3},
		{"_a._tcp.corp", conf, 4},
		{"9.2.0.192.in-addr.arpa", conf, 5},
		{"mail.corp", conf, 6},
		{"raw.corp", conf, 7},
		{"www.apps.corp", conf, 8},
		{"www.long.apps.corp", conf, 9},
		{"plain", conf, 10},
		{"two.corp", "", 0},
	} {
		place, ok := config.Where(dnsname.MustParse(test.name))
		if want := (Place{test.file, test.line}); ok != (test.file != "") || place != want {
			t.Errorf("%s: got %v, want %v", test.name, place, want)
		}
	}
}
