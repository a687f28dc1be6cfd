package e2e

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/test/e2e/kube"
)

// TestSameZoneFirst: the answers for a headless service always start with an address in the node's
// zone and contain all addresses. The node uses its own certificate, which allows it to read its
// own Node.
func TestSameZoneFirst(t *testing.T) {
	t.Parallel() // mostly waits
	c := newKube(t, kube.Config{})
	node := kube.NodeObject()
	node.SetLabels(map[string]string{"topology.kubernetes.io/zone": "east"})
	far, near := slice(t, "default", "db", "10.43.0.1", "10.43.0.2", "10.43.0.3"), slice(t, "default", "db", "10.43.1.1", "10.43.1.2")
	near.SetName("db-near")
	for zone, s := range map[string]*kube.Object{"west": far, "east": near} {
		for _, e := range s.Object["endpoints"].([]any) {
			e.(map[string]any)["zone"] = zone
		}
	}
	create(t, c, append(objects(t, manifestFile), node, service(t, "default", "db", "{clusterIP: None, ports: [{name: http, port: 80}]}"), far, near)...)
	n := newNode(t, "sameZoneFirst: true")
	n.credentials(c, kube.Node())
	n.start()
	const all = "NOERROR A 10.43.0.1 A 10.43.0.2 A 10.43.0.3 A 10.43.1.1 A 10.43.1.2"
	n.answers("db.default.svc.cluster.local", "A", all)
	first := map[string]int{}
	for range 200 {
		m := n.ask("db.default.svc.cluster.local", "A")
		if len(m.Answer) != 5 {
			t.Fatalf("%d addresses", len(m.Answer))
		}
		first[m.Answer[0].(*dns.A).A.String()]++
	}
	if len(first) != 2 || first["10.43.1.1"] == 0 || first["10.43.1.2"] == 0 {
		t.Errorf("first in 200 answers: %v", first)
	}
}
