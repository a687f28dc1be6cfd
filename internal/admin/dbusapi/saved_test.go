package dbusapi

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "dbus.json")
	rules, err := dnsmasqconf.ParseRules([]string{"10.0.0.1#5353@eth1@192.0.2.1", "/a.example/b.example/2001:db8::1", "//", "/c.example/#"})
	if err != nil {
		t.Fatal(err)
	}
	caller := Caller{Method: "SetServersEx", Name: ":1.7", Known: true, PID: 812, Comm: "openshift", Unit: "origin-node.service", At: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	for _, want := range []State{
		{Rules: rules, RulesBy: caller},
		{Options: dnsmasqconf.Options{FilterA: true, BogusPrivate: true}, OptionsBy: caller},
		{Rules: rules[:1], RulesBy: caller, Options: dnsmasqconf.Options{FilterAAAA: true, FilterWin2K: true}, OptionsBy: Caller{Method: "SetFilterAAAA", Name: ":1.8"}},
	} {
		if err := want.Save(path); err != nil {
			t.Fatal(err)
		}
		got, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(dnsname.Name{}, nameserver.Server{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-saved +loaded)\n%s", diff)
		}
	}
	for range 2 {
		if err := (State{RulesBy: caller}).Save(path); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the zero State left a file: %v", err)
		}
	}
	if got, err := Load(path); err != nil || !got.Same(State{}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestLoadFaults proves that an invalid file results in the zero State and an error.
func TestLoadFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dbus.json")
	for text, want := range map[string]string{
		"":                              "unexpected end of JSON input",
		`{"servers": ["10.0.0.1","x"]}`: "Invalid IP address 'x': not an IP address",
		strings.Repeat(" ", maxSaved+1): "1048577 bytes",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Load(path); err == nil || !strings.Contains(err.Error(), want) || !got.Same(State{}) {
			t.Errorf("%.40q: got %+v, %v", text, got, err)
		}
	}
	if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "got a FIFO") { // it blocked the start
		t.Errorf("a FIFO: %v", err)
	}
}
