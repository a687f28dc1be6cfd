package view

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/admin/control"
)

func podOf(client string) string {
	if client == "10.128.0.7" {
		return "shop/web"
	}
	return ""
}

// TestTroubles proves that recently slow names are shown with their latest query, together with the
// affected clients. A name that was slow repeatedly once kept the count and the worst time of all
// its queries, and A and AAAA were shown as one type.
func TestTroubles(t *testing.T) {
	now := time.Now()
	const web, other = "10.128.0.7", "192.0.2.9"
	query := func(name, client string, took, ago time.Duration) control.SlowName {
		return control.SlowName{Name: name, Type: "A", Rcode: "NOERROR", By: "10.0.0.2", Client: client, Took: took, At: now.Add(-ago)}
	}
	record := newTroubles()
	record.add(query("dead.example.", web, 7*time.Second, 15*time.Minute), true)
	record.add(query("dead.example.", web, 7*time.Second, 11*time.Minute), true)
	record.add(query("old.example.", web, time.Second, 11*time.Minute), false)
	record.add(query("dead.example.", web, 4*time.Second, 8*time.Minute), true)
	record.add(query("slow.example.", web, 3*time.Second, 2*time.Minute), false)
	record.add(query("slow.example.", other, 200*time.Millisecond, time.Minute), false)
	record.add(query("quick.example.", web, time.Millisecond, time.Minute), true)
	record.add(query("", web, time.Second, time.Minute), true)
	record.add(query("dead.example.", web, time.Second, 0), true)
	ipv6 := query("slow.example.", web, 3*time.Second, time.Minute)
	ipv6.Type = "AAAA"
	record.add(ipv6, false)
	wantNames := []control.SlowName{
		{Name: "dead.example.", Type: "A", Count: 2, Worst: 4 * time.Second, Took: time.Second, At: now, Rcode: "NOERROR", By: "10.0.0.2", Client: "10.128.0.7", Pod: "shop/web"},
		{Name: "slow.example.", Type: "A", Count: 2, Worst: 3 * time.Second, Took: 200 * time.Millisecond, At: now.Add(-time.Minute), Rcode: "NOERROR", By: "10.0.0.2", Client: "192.0.2.9"},
		{Name: "slow.example.", Type: "AAAA", Count: 1, Worst: 3 * time.Second, Took: 3 * time.Second, At: now.Add(-time.Minute), Rcode: "NOERROR", By: "10.0.0.2", Client: "10.128.0.7", Pod: "shop/web"},
	}
	if diff := cmp.Diff(wantNames, record.slowNames(now, shownNames, podOf)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	wantClients := []TroubledClient{{Client: "10.128.0.7", Pod: "shop/web", Slow: 4, Failed: 4}, {Client: "192.0.2.9", Slow: 1}}
	if diff := cmp.Diff(wantClients, record.troubledClients(now, podOf)); diff != "" {
		t.Errorf("clients (-want +got):\n%s", diff)
	}
	later := now.Add(troubleMinutes * time.Minute)
	if names, clients := record.slowNames(later, shownNames, podOf), record.troubledClients(later, podOf); len(names)+len(clients) > 0 {
		t.Errorf("got %v, %v later", names, clients)
	}
}

// TestTroublesAreBounded proves that made-up names and clients do not use more memory.
func TestTroublesAreBounded(t *testing.T) {
	now, record := time.Now(), newTroubles()
	for i := range 10 * troubleKeys {
		client := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		record.add(control.SlowName{Name: fmt.Sprintf("%d.example.", i), Client: client.String(), Took: time.Second, At: now}, true)
	}
	if len(record.names.Entries) != troubleKeys || len(record.clients.Entries) != troubleKeys {
		t.Errorf("got %d names, %d clients", len(record.names.Entries), len(record.clients.Entries))
	}
	if names, clients := record.slowNames(now, shownNames, podOf), record.troubledClients(now, podOf); len(names) != shownNames || len(clients) != shownClients {
		t.Errorf("got %d names, %d clients in the output", len(names), len(clients))
	}
}
