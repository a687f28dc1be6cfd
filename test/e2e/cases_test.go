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

// profiles are the settings that the cases' profiles stand for. Those of CoreDNS's unit tests have objects that no API holds: see
// TestFixturesThatNoAPIHolds.
var profiles = map[string][]string{
	"openshift":        {skyDNSKnows}, // the rest is of the node-config.yaml that is there
	"coredns-insecure": {"zoneProfile: kubernetes", "pods: insecure", podNetworks},
	"all":              {"zoneProfile: kubernetes", "pods: disabled", "clusterTTL: 30"},
}

// The networks of the fixtures' pods: in these the names of addresses are the cluster's. An
// endpoint without a hostname has no such name with SkyDNS, which asks upstream: it is in no network of a node's that stands for it.
const (
	podNetworks = `podCIDRs: [172.30.0.0/16, "fd00:1::/64"]`
	skyDNSKnows = `podCIDRs: [172.30.1.0/24, 1.1.1.0/24, "fd00:1::/64"]`
)

// fromSlices are answers that SkyDNS, and so the deviations' table, takes from Endpoints, of which hl-dual has none. This API has
// EndpointSlices, and those of hl-dual are there.
var fromSlices = map[string]string{
	"answer-table-skydns-3.11/109": "NOERROR A 172.30.6.1 A 172.30.6.3",
	"answer-table-skydns-3.11/111": "NOERROR AAAA fd00:1::61",
	"answer-table-skydns-3.11/113": "NOERROR AAAA fd00:1::",
	"answer-table-skydns-3.11/155": "NOERROR PTR d-0.hl-dual.alpha.svc.cluster.local.",
}

// TestCases asks what the peers were asked, over UDP and TCP, with the objects as the fixtures have them and as the controllers make
// them.
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

// judge asks the cases of a profile, and notes how many were answered as the peer does.
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

// TestReverse asks for names of addresses, with the cluster's networks known: what is not known in these does not exist, and the rest
// is the upstream's.
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
		{"ClusterIP of nobody", "10.96.99.99", "NXDOMAIN", "96.10.in-addr.arpa."},
		{"pod of nobody", "172.30.99.99", "NXDOMAIN", "30.172.in-addr.arpa."},
		{"IPv6 pod of nobody", "fd00:1::9999", "NXDOMAIN", "0.0.0.0.0.0.0.0.1.0.0.0.0.0.d.f.ip6.arpa."},
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

// reverse asks for the name of an address.
func (n *node) reverse(addr string) *dns.Msg {
	n.t.Helper()
	name, err := dns.ReverseAddr(addr)
	if err != nil {
		n.t.Fatal(err)
	}
	return n.ask(name, "PTR")
}

// TestReverseOfPods: the name of a pod behind a ClusterIP service, whose slices nobody watches, is there when it is asked for the first
// time: for who may list pods, and for a node, which may list its own alone and has the service's slices looked for among all.
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

// awaitEndpoint waits until the controller has made a slice of a Service in the namespace default that has the address.
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
		if got := conformance.Gist(n.ask(test.name, "PTR")); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
