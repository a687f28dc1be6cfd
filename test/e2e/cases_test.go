package e2e

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnstest"
	"github.com/node-dns/node-dns/internal/peers"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// profiles are the settings that the cases' profiles stand for. Those of CoreDNS's unit tests have objects that no API holds: see
// TestFixturesThatNoAPIHolds.
var profiles = map[string][]string{
	"openshift":        nil, // of the node-config.yaml that is there
	"coredns-insecure": {"zoneProfile: kubernetes", "pods: insecure"},
	"all":              {"zoneProfile: kubernetes", "pods: disabled", "clusterTTL: 30"},
}

// fromSlices are answers that SkyDNS, and so the deviations' table, takes from Endpoints, of which hl-dual has none. This API has
// EndpointSlices, and those of hl-dual are there.
var fromSlices = map[string]string{
	"answer-table-skydns-3.11/109": "NOERROR A 172.30.6.1 A 172.30.6.3",
	"answer-table-skydns-3.11/111": "NOERROR AAAA fd00:1::61",
	"answer-table-skydns-3.11/113": "NOERROR AAAA fd00:1::",
	"answer-table-skydns-3.11/155": "NOERROR PTR d-0.hl-dual.alpha.svc.cluster.local.",
}

// unwatched are cases that ask for the name of an endpoint behind a ClusterIP service. Such slices are not watched, and the API finds
// none by an address: they are known while somebody asks for that service's endpoints. See TestReverse.
var unwatched = map[string]bool{"answer-table-skydns-3.11/153": true, "answer-table-coredns-1.15/153": true}

// TestCases asks what the peers were asked, over UDP and TCP, with the objects as the fixtures have them and as the controllers make
// them.
func TestCases(t *testing.T) {
	cases, err := peers.Read(casesDir)
	if err != nil {
		t.Fatal(err)
	}
	for world, cluster := range map[string]*sharedCluster{"static": &static, "controllers": &controlled} {
		t.Run(world, func(t *testing.T) {
			for profile, settings := range profiles {
				t.Run(profile, func(t *testing.T) {
					n := newNode(t, settings...)
					if profile == "openshift" {
						n.joinOpenShift(cluster.get(t), kube.Reader())
					} else {
						n.credentials(cluster.get(t), kube.Reader())
					}
					n.start()
					n.answers(kubernetesName, "A", "NOERROR A 10.96.0.1")
					n.judge(cases, profile)
				})
			}
		})
	}
}

// judge asks the cases of a profile, and notes how many were answered as the peer does.
func (n *node) judge(cases []peers.Case, profile string) {
	n.t.Helper()
	alike, deviant, wrong := 0, 0, 0
	for _, c := range cases {
		if c.Profile != profile || unwatched[c.ID] {
			continue
		}
		qtype := dns.StringToType[c.Q.Type]
		faults := 0
		for network, got := range map[string]*dns.Msg{
			"udp": dnstest.Exchange(n.t, n.addr, c.Q.Name, qtype, dnstest.EDNS(udpSize)),
			"tcp": dnstest.ExchangeTCP(n.t, n.addr, c.Q.Name, qtype, dnstest.EDNS(udpSize)),
		} {
			fault := c.Judge(got)
			if want, ok := fromSlices[c.ID]; ok {
				fault = ""
				if peers.Gist(got) != want {
					fault = "got " + peers.Gist(got) + ", want " + want
				}
			}
			if fault != "" {
				n.t.Errorf("%s: %s %s over %s: %s", c.ID, c.Q.Name, c.Q.Type, network, fault)
				faults++
			}
		}
		_, deviates := c.Deviation()
		switch {
		case faults > 0:
			wrong++
		case deviates:
			deviant++
		default:
			alike++
		}
	}
	if alike+deviant+wrong == 0 {
		n.t.Errorf("no case has the profile %s", profile)
	}
	measured.note("%s: %d cases as the peer, %d otherwise on purpose, %d wrong", n.t.Name(), alike, deviant, wrong)
}

// TestReverse asks for names of addresses, with the cluster's networks known: what is not known in these does not exist, and the rest
// is the upstream's.
func TestReverse(t *testing.T) {
	const services, pods = "serviceCIDRs: [" + kube.ServiceCIDR4 + `, "` + kube.ServiceCIDR6 + `"]`, `podCIDRs: [172.30.0.0/16, "fd00:1::/64"]`
	n := newNode(t, services, pods)
	n.credentials(static.get(t), kube.Reader())
	n.start()
	n.answers(kubernetesName, "A", "NOERROR A 10.96.0.1")
	n.answers("172-30-1-2.web.alpha.svc.cluster.local", "A", "NOERROR A 172.30.1.2")
	tests := []struct{ name, addr, want, zone string }{
		{"ClusterIP", "10.96.10.1", "NOERROR PTR web.alpha.svc.cluster.local.", ""},
		{"IPv6 ClusterIP", "fd00:10:96::a03", "NOERROR PTR dual.alpha.svc.cluster.local.", ""},
		{"endpoint of a headless service", "172.30.2.3", "NOERROR PTR 172-30-2-3.hl.alpha.svc.cluster.local.", ""},
		{"endpoint of a ClusterIP service whose endpoints were asked for", "172.30.1.1", "NOERROR PTR web-0.web.alpha.svc.cluster.local.", ""},
		{"ClusterIP of nobody", "10.96.99.99", "NXDOMAIN", "96.10.in-addr.arpa."},
		{"pod of nobody", "172.30.99.99", "NXDOMAIN", "30.172.in-addr.arpa."},
		{"IPv6 pod of nobody", "fd00:1::9999", "NXDOMAIN", "0.0.0.0.0.0.0.0.1.0.0.0.0.0.d.f.ip6.arpa."},
		{"elsewhere", "192.0.2.80", "NXDOMAIN", "."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reverse, err := dns.ReverseAddr(test.addr)
			if err != nil {
				t.Fatal(err)
			}
			got := n.ask(reverse, "PTR")
			zone := ""
			if len(got.Ns) > 0 {
				zone = got.Ns[0].Header().Name
			}
			if peers.Gist(got) != test.want || zone != test.zone {
				t.Errorf("got %s of zone %q, want %s of %q", peers.Gist(got), zone, test.want, test.zone)
			}
		})
	}
}

// TestReverseOfOpenShift: a node of OpenShift 3 knows the pods' network (proxyArguments.cluster-cidr) but not that of Services, whose
// names are the cluster's nevertheless.
func TestReverseOfOpenShift(t *testing.T) {
	n := newNode(t)
	n.joinOpenShift(static.get(t), kube.Reader(), "proxyArguments: {cluster-cidr: [172.30.0.0/16]}")
	n.start()
	n.answers(kubernetesName, "A", "NOERROR A 10.96.0.1")
	for _, test := range []struct{ name, want string }{
		{"1.10.96.10.in-addr.arpa", "NOERROR PTR web.alpha.svc.cluster.local."},
		{"1.2.30.172.in-addr.arpa", "NOERROR PTR hl-0.hl.alpha.svc.cluster.local."},
		{"99.99.30.172.in-addr.arpa", "NXDOMAIN"},
		{"1.1.1.1.in-addr.arpa", "NXDOMAIN"}, // an endpoint of a headless service, outside of the pods' network
	} {
		if got := peers.Gist(n.ask(test.name, "PTR")); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
