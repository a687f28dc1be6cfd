package cluster

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

const ownDNS = `
apiVersion: v1
kind: Pod
metadata: {name: own, namespace: shop}
spec:
  nodeName: n1
  containers: []
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  dnsConfig: {nameservers: [192.0.2.53], searches: [corp.example], options: [{name: ndots, value: "2"}, {name: edns0}]}
---
apiVersion: v1
kind: Pod
metadata: {name: plain, namespace: shop}
spec: {nodeName: n1, containers: []}
---
apiVersion: v1
kind: Pod
metadata: {name: elsewhere, namespace: shop}
spec: {nodeName: n2, containers: []}
`

func TestFetchPodDNS(t *testing.T) {
	w := newWorld(t)
	w.server.Apply(ownDNS)
	w.config.NodeName = "n1"
	fetch := func(name string) (PodDNS, error) {
		return FetchPodDNS(t.Context(), w.config, zone.Key{Namespace: "shop", Name: name})
	}
	own, err := fetch("own")
	if err != nil {
		t.Fatal(err)
	}
	var options []string
	for _, o := range own.Config.Options {
		word := o.Name
		if o.Value != nil {
			word += ":" + *o.Value
		}
		options = append(options, word)
	}
	got := []any{own.Policy, own.HostNetwork, own.Config.Nameservers, own.Config.Searches, options}
	want := []any{"ClusterFirstWithHostNet", true, []string{"192.0.2.53"}, []string{"corp.example"}, []string{"ndots:2", "edns0"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if plain, err := fetch("plain"); err != nil || len(plain.Config.Nameservers) > 0 || plain.HostNetwork {
		t.Errorf("plain Pod: got %v, error %v", plain, err)
	}
	for _, name := range []string{"elsewhere", "nowhere"} {
		if _, err := fetch(name); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "the node n1 has no pod shop/"+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.server.Deny("list", "pods")
	if _, err := fetch("own"); err == nil || !strings.Contains(err.Error(), "list pods in namespace shop") {
		t.Errorf("without permission: got error %v", err)
	}
	w.server.Close()
	if _, err := fetch("own"); err == nil {
		t.Error("no error without a server")
	}
	w.config.Kubeconfig += ".none"
	if _, err := fetch("own"); err == nil || !strings.Contains(err.Error(), "reading the kubeconfig") {
		t.Errorf("without a kubeconfig: got error %v", err)
	}
}
