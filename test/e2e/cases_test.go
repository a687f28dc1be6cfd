package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-dns/node-dns/internal/test/conformance"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// profiles are the settings for the cases' profiles. Those of CoreDNS's unit tests are missing,
// because their objects are invalid in an API: see TestFixturesThatNoAPIHolds.
var profiles = map[string][]string{
	"openshift":        {skyDNSKnows}, // the other settings are in the node-config.yaml
	"coredns-insecure": {"zoneProfile: kubernetes", "pods: insecure", podNetworks},
	"all":              {"zoneProfile: kubernetes", "pods: disabled", "clusterTTL: 30"},
}

// The networks of the fixtures' pods. In these networks, names of addresses belong to the cluster.
// SkyDNS has no such name for an endpoint without a hostname and forwards the query, so the
// endpoint is outside the node's networks here.
const (
	podNetworks = `podCIDRs: [172.30.0.0/16, "fd00:1::/64"]`
	skyDNSKnows = `podCIDRs: [172.30.1.0/24, 1.1.1.0/24, "fd00:1::/64"]`
)

// fromSlices are answers that SkyDNS, and so the table of deviations, takes from Endpoints. hl-dual
// has no Endpoints, but this API has EndpointSlices for it.
var fromSlices = map[string]string{
	"answer-table-skydns-3.11/109": "NOERROR A 172.30.6.1 A 172.30.6.3",
	"answer-table-skydns-3.11/111": "NOERROR AAAA fd00:1::61",
	"answer-table-skydns-3.11/113": "NOERROR AAAA fd00:1::",
	"answer-table-skydns-3.11/155": "NOERROR PTR d-0.hl-dual.alpha.svc.cluster.local.",
}

// TestCases repeats the peers' queries over UDP and TCP, with the objects of the fixtures and with
// those that the controllers derive from them.
func TestCases(t *testing.T) {
	cases, err := conformance.Read(casesDir)
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

// judge sends the queries of a profile's cases and records how many answers equal the peer's.
func (n *node) judge(cases []conformance.Case, profile string) {
	n.t.Helper()
	alike, deviant, wrong := 0, 0, 0
	for _, c := range cases {
		if c.Profile != profile {
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
				if conformance.Gist(got) != want {
					fault = "got " + conformance.Gist(got) + ", want " + want
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

// TestReverse queries names of addresses while the cluster's networks are known. Unknown addresses
// in these networks do not exist, and other addresses are forwarded.
func TestReverse(t *testing.T) {
	const services = "serviceCIDRs: [" + kube.ServiceCIDR4 + `, "` + kube.ServiceCIDR6 + `"]`
	n := newNode(t, services, podNetworks)
	n.credentials(static.get(t), kube.Reader())
	n.start()
	n.answers(kubernetesName, "A", "NOERROR A 10.96.0.1")
	tests := []struct{ name, addr, want, zone string }{
		{"ClusterIP", "10.96.10.1", "NOERROR PTR web.alpha.svc.cluster.local.", ""},
		{"IPv6 ClusterIP", "fd00:10:96::a03", "NOERROR PTR dual.alpha.svc.cluster.local.", ""},
		{"endpoint of a headless service", "172.30.2.3", "NOERROR PTR 172-30-2-3.hl.alpha.svc.cluster.local.", ""},
		{"endpoint of a ClusterIP service", "172.30.1.1", "NOERROR PTR web-0.web.alpha.svc.cluster.local.", ""},
		{"unknown ClusterIP", "10.96.99.99", "NXDOMAIN", "96.10.in-addr.arpa."},
		{"unknown pod address", "172.30.99.99", "NXDOMAIN", "30.172.in-addr.arpa."},
		{"unknown IPv6 pod address", "fd00:1::9999", "NXDOMAIN", "0.0.0.0.0.0.0.0.1.0.0.0.0.0.d.f.ip6.arpa."},
		{"elsewhere", "192.0.2.80", "NXDOMAIN", "."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := n.reverse(test.addr)
			zone := ""
			if len(got.Ns) > 0 {
				zone = got.Ns[0].Header().Name
			}
			if conformance.Gist(got) != test.want || zone != test.zone {
				t.Errorf("got %s of zone %q, want %s of %q", conformance.Gist(got), zone, test.want, test.zone)
			}
		})
	}
}

// reverse queries the name of an address.
func (n *node) reverse(addr string) *dns.Msg {
	n.t.Helper()
	name, err := dns.ReverseAddr(addr)
	if err != nil {
		n.t.Fatal(err)
	}
	return n.ask(name, "PTR")
}

// TestReverseOfPods: the name of a pod behind a ClusterIP service exists at the first query, both
// for a client that may list all pods and for a node, which may list only its own and finds the
// endpoint in the service's slices.
func TestReverseOfPods(t *testing.T) {
	c := controlled.get(t)
	for _, o := range append(objects(t, manifestFile),
		service(t, "default", "shop", "{selector: {app: shop}, ports: [{port: 80}]}"),
		object(t, "{apiVersion: v1, kind: Pod, metadata: {name: shop-0, namespace: default, labels: {app: shop}, annotations: {lab/ip: 172.30.40.1}}}"),
		object(t, "{apiVersion: v1, kind: Pod, metadata: {name: alone, namespace: default, annotations: {lab/ip: 172.30.40.2}}}"),
	) {
		if o.GetKind() != "ClusterRole" {
			create(t, c, o)
			defer remove(t, c, o)
		}
	}
	awaitEndpoint(t, c, "shop", "172.30.40.1")
	for name, user := range map[string]kube.User{"who may list pods": kube.Reader(), "a node": kube.Node()} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, podNetworks)
			n.credentials(c, user)
			n.start()
			n.answers(kubernetesName, "A", "NOERROR A 10.96.0.1")
			for _, test := range []struct{ addr, want string }{
				{"172.30.40.1", "NOERROR PTR 172-30-40-1.shop.default.svc.cluster.local."},
				{"172.30.40.2", "NXDOMAIN"},
				{"172.30.40.3", "NXDOMAIN"},
			} {
				if got := conformance.Gist(n.reverse(test.addr)); got != test.want {
					t.Errorf("%s: %s, want %s", test.addr, got, test.want)
				}
			}
			n.isWell()
		})
	}
}

// awaitEndpoint waits until the controller has written a slice with the address for a Service in
// the namespace default.
func awaitEndpoint(t *testing.T, c *kube.Cluster, service, addr string) {
	t.Helper()
	slices := c.Client(slice(t, "default", service))
	of := metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + service}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		list, err := slices.List(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			if strings.Contains(fmt.Sprint(o.Object["endpoints"]), addr) {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("no slice of %s has %s", service, addr)
		}
	}
}

// TestReverseOfOpenShift: a node of OpenShift 3 knows the pod network (proxyArguments.cluster-cidr)
// but not the service network. Service addresses still have the cluster's names.
func TestReverseOfOpenShift(t *testing.T) {
	n := newNode(t)
	n.joinOpenShift(static.get(t), kube.Reader(), "proxyArguments: {cluster-cidr: [172.30.0.0/16]}")
	n.start()
	n.answers(kubernetesName, "A", "NOERROR A 10.96.0.1")
	for _, test := range []struct{ name, want string }{
		{"1.10.96.10.in-addr.arpa", "NOERROR PTR web.alpha.svc.cluster.local."},
		{"1.2.30.172.in-addr.arpa", "NOERROR PTR hl-0.hl.alpha.svc.cluster.local."},
		{"99.99.30.172.in-addr.arpa", "NXDOMAIN"},
		{"1.1.1.1.in-addr.arpa", "NXDOMAIN"}, // an endpoint of a headless service outside the pod network
	} {
		if got := conformance.Gist(n.ask(test.name, "PTR")); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
