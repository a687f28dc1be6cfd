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

// TestSpell: one line when a bound begins to be met, one when it was not for a minute, however often it was between.
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
			counter = 31 + 9 // once more, long after
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
		t.Errorf("said %q", got)
	}
}

// TestLimitsInLog: a stranger's queries are one line of the log, with his address.
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
	spells := make([]spell, len(limitWords))
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
		!strings.Contains(log, `msg="not serving all that is asked" limit="the client may not ask: allowFrom" count=5 client=127.0.0.1 condition=limit-met`) ||
		!strings.Contains(log, `msg="serving all that is asked again" limit="the client may not ask: allowFrom" count=15 for=10s condition=limit-over`) {
		t.Errorf("log:\n%s", log)
	}
}
