package zone_test

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// inZones is a headless service in two zones; the node is in one of them.
const inZones = `
	zone     b
	headless shop/zonal
	slice    shop/zonal-1 zonal http:80 10.9.0.1@a 10.9.0.2@b 10.9.0.3 10.9.0.4@b !10.9.0.5@b fd00::9@a
	service  shop/zonal-ip 172.30.0.77 172.30.0.78 http:80`

// TestSameZoneFirst: endpoints in this node's zone come first in rotation; no endpoint is omitted.
func TestSameZoneFirst(t *testing.T) {
	same := func(c *zone.Config) { c.SameZoneFirst = true }
	rows := []struct {
		story, lines, name, qtype string
		change                    func(*zone.Config)
		want                      [2]string // last octets of the addresses, by rotation
	}{
		{"same zone first", inZones, "zonal", "A", same, [2]string{"2 4 3 1", "4 2 3 1"}},
		{"not configured", inZones, "zonal", "A", nil, [2]string{"1 2 3 4", "2 3 4 1"}},
		{"unknown zone", strings.Replace(inZones, "zone     b", "", 1), "zonal", "A", same, [2]string{"1 2 3 4", "2 3 4 1"}},
		{"no endpoint in the zone", strings.Replace(inZones, "zone     b", "zone c", 1), "zonal", "A", same, [2]string{"1 2 3 4", "2 3 4 1"}},
		{"duplicate address", inZones + "\nslice shop/zonal-2 zonal http:80 10.9.0.2@b", "zonal", "A", same, [2]string{"2 4 3 1", "4 2 3 1"}},
		{"ClusterIP service", inZones, "zonal-ip", "A", same, [2]string{"77 78", "78 77"}},
	}
	for _, row := range rows {
		t.Run(row.story, func(t *testing.T) {
			for first, want := range row.want {
				resolver := resolverOf(t, row.lines, func(c *zone.Config) {
					if row.change != nil {
						row.change(c)
					}
					c.Rotate = func(n int) int { return first % n }
				})
				m := dnstest.Exchange(t, serveResolver(t, resolver, never(t)), row.name+".shop.svc.cluster.local.", dns.StringToType[row.qtype])
				var got []string
				for _, rr := range m.Answer {
					addr := rr.(*dns.A).A.String()
					got = append(got, addr[strings.LastIndexByte(addr, '.')+1:])
				}
				if strings.Join(got, " ") != want {
					t.Errorf("from record %d on: %v, want %s", first, got, want)
				}
			}
		})
	}
}
