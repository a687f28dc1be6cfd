package control

import (
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/golden"
)

// synced is a healthy built-in resolver.
func synced() *Resolver {
	return &Resolver{
		Phase: "synced", Since: noon.Add(-3 * time.Hour), Profile: "openshift", Kubeconfig: "/etc/origin/node/node.kubeconfig",
		Server: "https://master.example.com:8443", MissingRights: []string{}, Services: 120, Endpoints: 304, Namespaces: 17, Pods: 31,
		Lists: 5, Events: 4711, Autopath: Autopath{On: true, Answered: 900, Saved: 3600},
	}
}

func TestClusterText(t *testing.T) {
	tests := []struct {
		name    string
		forward bool // whether a cluster DNS server is known
		spoil   func(*Resolver)
	}{
		{name: "synced", spoil: func(*Resolver) {}},
		{name: "autopath-off", spoil: func(r *Resolver) {
			r.Autopath = Autopath{Why: "the Kubernetes API denies the right to list pods"}
		}},
		{name: "from-disk", spoil: func(r *Resolver) {
			r.FromDisk, r.Phase, r.Error = noon.Add(-26*time.Hour), "connecting", "connection refused"
		}},
		{name: "no-kubeconfig", spoil: func(r *Resolver) {
			*r = Resolver{Phase: "no kubeconfig", Since: noon.Add(-time.Minute), Profile: "openshift", Error: "no kubeconfig at /etc/origin/node/node.kubeconfig yet", Autopath: Autopath{Why: "the Kubernetes API has not been read"}}
		}},
		{name: "syncing-forwarded", forward: true, spoil: func(r *Resolver) {
			*r = Resolver{Phase: "syncing", Since: noon.Add(-time.Second), Profile: "kubernetes", Server: "https://10.0.0.9:6443", Autopath: Autopath{Why: "disabled by autopath in node-dns.yaml"}}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := well()
			if !test.forward {
				s.Routes = s.Routes[2:]
			}
			s.Cluster.Resolver = synced()
			test.spoil(s.Cluster.Resolver)
			var text strings.Builder
			if err := s.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, "testdata/cluster/"+test.name+".txt", text.String())
			checkJSON(t, "testdata/cluster/"+test.name+".json", s)
		})
	}
}
