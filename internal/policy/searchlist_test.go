package policy

import (
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// TestSearchLists: a pod's list equals the kubelet's. A longer one would find other hosts than the
// pod does.
func TestSearchLists(t *testing.T) {
	const cluster = "shop.svc.cluster.local. svc.cluster.local. cluster.local."
	long := func(n int) string { return strings.Repeat("long.", n) + "example." }
	tests := []struct {
		name, host, want string
		openshift        bool
	}{
		{name: "no host search list", want: cluster},
		{name: "duplicate domain", host: "cluster.local. example.com.", want: cluster + " example.com."},
		{name: "OpenShift 3: at most 6 domains", host: "a. b. c. d.", openshift: true, want: cluster + " a. b. c."},
		{name: "Kubernetes: more than 6 domains", host: "a. b. c. d.", want: cluster + " a. b. c. d."},
		{name: "OpenShift 3: 256 characters", host: long(38) + " b.b.", openshift: true, want: cluster + " " + long(38) + " b.b."},
		{name: "OpenShift 3: 257 characters", host: long(38) + " b.bb.", openshift: true, want: cluster + " " + long(38)},
	}
	for _, test := range tests {
		var host []dnsname.Name
		for _, domain := range strings.Fields(test.host) {
			host = append(host, dnsname.MustParse(domain))
		}
		config := nodeconfig.Config{ClusterDomain: dnsname.MustParse("cluster.local"), IsOpenShift: test.openshift}
		var got []string
		for _, name := range newSearchLists(config, host).Of("shop") {
			got = append(got, name.String())
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s: got %s, want %s", test.name, text, test.want)
		}
	}
}
