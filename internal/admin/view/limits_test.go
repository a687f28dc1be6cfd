package view

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/resolve"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestSpell proves that a spell logs one line when a limit is first hit and one when it was not hit
// for a minute.
func TestSpell(t *testing.T) {
	var s spell
	now := time.Unix(0, 0)
	look := func(counter uint64) string {
		now = now.Add(limitsEvery)
		begins, ends := s.look(now, counter)
		switch {
		case begins:
			return "begins"
		case ends:
			s = spell{counter: counter}
			return "ends"
		}
		return ""
	}
	var said []string
	for i := range 100 {
		counter := uint64(0)
		switch {
		case i >= 50:
			counter = 31 + 9 // once more after a long time
		case i >= 30:
			counter = 31
		case i >= 10:
			counter = uint64(i)
		}
		if word := look(counter); word != "" {
			said = append(said, word)
		}
	}
	if got := strings.Join(said, " "); got != "begins ends begins ends" {
		t.Errorf("got %q", got)
	}
}

// TestMet proves that the name of a deleted pod is kept until the address changes.
func TestMet(t *testing.T) {
	one, other := netip.MustParseAddr("10.128.0.7"), netip.MustParseAddr("10.128.0.8")
	var m met
	for _, step := range []struct {
		name   string
		client netip.Addr
		now    string // pod that has the address now
		want   string
	}{
		{"no client", netip.Addr{}, "", " "},
		{"a pod", one, "shop/web", "10.128.0.7 shop/web"},
		{"the pod is gone", one, "", "10.128.0.7 shop/web"},
		{"another pod has the address", one, "shop/db", "10.128.0.7 shop/db"},
		{"another client", other, "", "10.128.0.8 "},
		{"the first client again", one, "", "10.128.0.7 "},
	} {
		if address, pod := m.seen(step.client, step.now); address+" "+pod != step.want {
			t.Errorf("%s: got %q %q", step.name, address, pod)
		}
	}
}

// TestLimitsInLog proves that queries of a client without access are logged in one line
// with its address.
func TestLimitsInLog(t *testing.T) {
	text := new(lab.Text)
	v := New(Config{Log: slog.New(slog.NewTextHandler(text, nil)), Panics: new(journal.Panics)})
	resolver := resolve.New(resolve.Config{}, new(policy.Policy))
	defer resolver.Close()
	server := dnsserver.New(dnsserver.Config{Access: &dnsserver.Access{Clients: dnsserver.NewNetworks(nil)}})
	defer server.Shutdown(t.Context())
	v.Show(resolver, server)
	if err := server.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}); err != nil {
		t.Fatal(err)
	}
	spells := map[string]spell{}
	now := time.Now()
	for range 3 {
		for range 5 {
			if m := dnstest.Exchange(t, v.Listening()[0], "www.example.com.", dns.TypeA); m.Rcode != dns.RcodeRefused {
				t.Fatalf("got %v", m)
			}
		}
		now = now.Add(limitsEvery)
		v.logLimits(now, spells)
	}
	v.logLimits(now.Add(limitsQuiet), spells)
	log := text.String()
	if strings.Count(log, "\n") != 2 ||
		!strings.Contains(log, `msg="limit reached: some queries or connections are not served" limit="client not allowed by allowFrom" count=5 client=127.0.0.1 condition=limit-met`) ||
		!strings.Contains(log, `msg="limit no longer reached" limit="client not allowed by allowFrom" count=15 for=10s condition=limit-over`) {
		t.Errorf("log:\n%s", log)
	}
}
