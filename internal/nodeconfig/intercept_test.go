package nodeconfig

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestIntercept(t *testing.T) {
	for _, test := range []struct{ name, text, want, fault string }{
		{"absent", "", "none", ""},
		{"none", "intercept: none", "none", ""},
		{"empty list", "intercept: []", "none", ""},
		{"the cluster's DNS Service", "intercept: clusterDNS", "clusterDNS", ""},
		{"addresses", `intercept: [169.254.20.10, "fd00::a"]`, "169.254.20.10 fd00::a", ""},
		{"both", "intercept: [clusterDNS, 169.254.20.10]", "clusterDNS 169.254.20.10", ""},
		{"by Cilium", "intercept: cilium", "cilium", ""},
		{"by Cilium, and not", "intercept: [cilium, none]", "cilium", ""},
		{"by Cilium and by the helper", "intercept: [cilium, clusterDNS]", "none", `expected "cilium" alone, got clusterDNS cilium`},
		{"another word", "intercept: yes", "none", `got "yes"`},
		{"a network", "intercept: 10.96.0.0/12", "none", `got "10.96.0.0/12"`},
		{"loopback", "intercept: 127.0.0.1", "none", `got "127.0.0.1" (127.0.0.1 is not a unicast address for pods)`},
		{"too many", "intercept: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5, 10.0.0.6, 10.0.0.7, 10.0.0.8, 10.0.0.9]", "none", "expected at most 8 entries, got 9"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := parseNodeDNS("node-dns.yaml", strings.NewReader(test.text))
			switch {
			case test.fault == "" && err != nil:
				t.Fatal(err)
			case test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)):
				t.Fatalf("got the error %v, want %s", err, test.fault)
			}
			if got := c.Intercept.String(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestPlaceIntercept: an intercepted address becomes local, and must not become the node's own. The
// kubelet sends pods to 10.96.0.10 and fd02::a; the host has 10.0.0.5.
func TestPlaceIntercept(t *testing.T) {
	for _, test := range []struct {
		name, nodeDNS string
		api           string // the Service's addresses in the API
		service       string // addresses that the helper or IPVS has made local
		want          string // intercepted, then where node-dns listens, for resolv.conf, and the servers of the cluster
	}{
		{"off", "", "", "", "none | 10.0.0.5:53 | 10.0.0.5 | 10.96.0.10 fd02::a"},
		// resolv.conf named the address of the Service, which IPVS had made local.
		{"off, with IPVS", "", "", "10.96.0.10 fd02::a", "none | 10.0.0.5:53 | 10.0.0.5 | 10.96.0.10 fd02::a"},
		{"not local yet", "{intercept: clusterDNS}", "", "", "10.96.0.10 fd02::a | 10.0.0.5:53 | 10.0.0.5 | 10.96.0.10 fd02::a"},
		{"one is local", "{intercept: clusterDNS}", "", "10.96.0.10", "10.96.0.10 fd02::a | 10.0.0.5:53 10.96.0.10:53 | 10.0.0.5 | fd02::a"},
		{"both are local", "{intercept: clusterDNS}", "", "10.96.0.10 fd02::a", "10.96.0.10 fd02::a | 10.0.0.5:53 10.96.0.10:53 [fd02::a]:53 | 10.0.0.5 | "},
		{"one more address", "{intercept: [172.20.0.10]}", "", "172.20.0.10", "172.20.0.10 | 10.0.0.5:53 172.20.0.10:53 | 10.0.0.5 | 10.96.0.10 fd02::a"},
		{"NodeLocal DNSCache's address, which is translated", "{intercept: [169.254.20.10]}", "", "169.254.20.10", "169.254.20.10 | 10.0.0.5:53 | 10.0.0.5 | 10.96.0.10 fd02::a"},
		{"NodeLocal DNSCache may return with the Service's address", "{intercept: [clusterDNS, 169.254.20.10]}", "", "10.96.0.10 169.254.20.10", "169.254.20.10 10.96.0.10 fd02::a | 10.0.0.5:53 | 10.0.0.5 | fd02::a"},
		{"NodeLocal DNSCache's IPv6 address", "{intercept: [clusterDNS, 'fd00::10']}", "", "fd02::a fd00::10", "fd00::10 10.96.0.10 fd02::a | 10.0.0.5:53 | 10.0.0.5 | 10.96.0.10"},
		{"an address of the host beside the Service's", "{intercept: [clusterDNS, 10.0.0.5]}", "", "10.96.0.10", "10.96.0.10 fd02::a | 10.0.0.5:53 10.96.0.10:53 | 10.0.0.5 | fd02::a"},
		{"an address of the host", "{intercept: [10.0.0.5]}", "", "", "none | 10.0.0.5:53 | 10.0.0.5 | 10.96.0.10 fd02::a"},
		{"clusterDNS of node-dns.yaml", "{intercept: clusterDNS, clusterDNS: [10.97.0.10, 10.97.0.11:5353]}", "", "10.97.0.10", "10.96.0.10 fd02::a 10.97.0.10 | 10.0.0.5:53 10.97.0.10:53 | 10.0.0.5 | 10.97.0.11:5353"},
		{"explicit listen", "{intercept: clusterDNS, listen: 10.0.0.5}", "", "10.96.0.10", "10.96.0.10 fd02::a | 10.0.0.5:53 10.96.0.10:53 | 10.0.0.5 | fd02::a"},
		{"the API knows another address", "{intercept: clusterDNS}", "10.98.0.10", "10.98.0.10", "10.98.0.10 10.96.0.10 fd02::a | 10.0.0.5:53 10.98.0.10:53 | 10.0.0.5 | 10.96.0.10 fd02::a"},
		{"off, and the API knows an address", "", "10.98.0.10", "", "none | 10.0.0.5:53 | 10.0.0.5 | 10.96.0.10 fd02::a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, pathOf(root, "Kubelet"), `{apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration, clusterDNS: [10.96.0.10, "fd02::a"]}`)
			write(t, pathOf(root, "NodeDNS"), test.nodeDNS)
			c, err := Load(DefaultPaths(root))
			if err != nil {
				t.Fatal(err)
			}
			isService := func(a netip.Addr, _ []netip.Addr) bool {
				return slices.Contains(strings.Fields(test.service), a.String())
			}
			var api []netip.Addr
			for word := range strings.FieldsSeq(test.api) {
				api = append(api, netip.MustParseAddr(word))
			}
			place := c.Place(Host{
				IsLocal:   func(a netip.Addr) bool { return a.IsLoopback() || a.String() == "10.0.0.5" || isService(a, nil) },
				IsService: isService, NodeIP: netip.MustParseAddr("10.0.0.5"), DNSService: api,
			})
			var servers []string
			for _, s := range place.ClusterDNS {
				servers = append(servers, s.String())
			}
			got := strings.TrimSpace(addrTexts(place.Intercept) + " | " + joined(place.Listen) + " | " + place.Nameserver.String() + " | " + strings.Join(servers, " "))
			if got != strings.TrimSpace(test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
			for _, at := range place.Listen[1:] {
				if !slices.Contains(place.Spare, at) {
					t.Errorf("%s is not spare: readiness would depend on the helper", at)
				}
			}
			if len(place.Problems) > 0 {
				t.Errorf("got problems %q", place.Problems)
			}
		})
	}
}
