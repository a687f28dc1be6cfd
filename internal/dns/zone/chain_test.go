package zone_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
)

// TestChains: CoreDNS follows chains of eleven ExternalName services. Our error for a chain of nine
// claimed a loop.
func TestChains(t *testing.T) {
	chain := func(links int, last string) string {
		var lines strings.Builder
		lines.WriteString("namespace shop\nservice shop/web 172.30.0.10\n")
		for i := 1; i < links; i++ {
			fmt.Fprintf(&lines, "external shop/e%d e%d.shop.svc.cluster.local\n", i, i+1)
		}
		fmt.Fprintf(&lines, "external shop/e%d %s.shop.svc.cluster.local\n", links, last)
		return lines.String()
	}
	for _, row := range []struct {
		name  string
		links int
		last  string
		want  string // of the error; "" if none
	}{
		{"longest allowed chain", 16, "web", ""},
		{"too long", 17, "web", "chain of more than 16 ExternalName services"},
		{"loop", 16, "E1", "ExternalName services form a loop"},
		{"loop of one", 1, "e1", "ExternalName services form a loop"},
		{"loop after other aliases", 5, "e3", "ExternalName services form a loop"},
	} {
		t.Run(row.name, func(t *testing.T) {
			resolver := resolverOf(t, chain(row.links, row.last), func(c *zone.Config) { c.TTL = 5 })
			m, err := resolver.ServeDNS(t.Context(), query(t, "e1.shop.svc.cluster.local."))
			if row.want == "" {
				if err != nil || len(m.Answer) != row.links+1 {
					t.Errorf("got %v, %v", m, err)
				}
				return
			}
			var extended *dnsserver.ExtendedError
			if !errors.As(err, &extended) || extended.Text != row.want {
				t.Errorf("got %v, %v, want %q", m, err, row.want)
			}
		})
	}
}
