package kubewire

import (
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

var (
	byValue = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	sameSet = cmp.Options{byValue, cmpopts.EquateEmpty()}
)

func addrs(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// objects has one object of each shape that matters for DNS. The expected values follow in the same
// order.
const objects = `
apiVersion: v1
kind: Service
metadata: {name: a-web, namespace: shop, labels: {app: web}, annotations: {note: long}}
spec:
  clusterIP: 10.96.0.5
  clusterIPs: [10.96.0.5, "fd00::5"]
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30080}, {name: dns, port: 53, protocol: UDP}, {name: sig, port: 132, protocol: SCTP}]
---
apiVersion: v1
kind: Service
metadata: {name: b-old, namespace: shop}
spec: {clusterIP: 10.96.0.6, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: c-headless, namespace: shop}
spec: {clusterIP: None, clusterIPs: [None], publishNotReadyAddresses: true}
---
apiVersion: v1
kind: Service
metadata: {name: d-external, namespace: shop}
spec: {type: ExternalName, externalName: www.example.test, clusterIP: ""}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: a-slice
  namespace: shop
  labels: {kubernetes.io/service-name: web, service.kubernetes.io/headless: ""}
  annotations: {endpoints.kubernetes.io/last-change-trigger-time: "2026-11-22T09:37:03Z"}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}, {name: any}]
endpoints:
- {addresses: [10.1.0.1], hostname: web-0, zone: z1, targetRef: {kind: Pod, name: web-0}, conditions: {ready: true}}
- {addresses: [10.1.0.2], conditions: {ready: false, serving: true, terminating: true}, targetRef: {kind: Node, name: n}}
- {addresses: ["::ffff:10.1.0.3", 10.1.0.4]}
- {addresses: ["fe80::1%eth0"]}
- {addresses: []}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: b-names, namespace: shop, labels: {kubernetes.io/service-name: names}}
addressType: FQDN
endpoints: [{addresses: [www.example.test]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: c-of-nobody, namespace: shop}
addressType: IPv4
endpoints: [{addresses: [10.1.0.9]}]
---
apiVersion: v1
kind: Endpoints
metadata: {name: a-web, namespace: shop}
subsets:
- addresses: [{ip: 10.1.0.1, hostname: web-0, targetRef: {kind: Pod, name: web-0}}, {ip: 10.1.0.2}]
  notReadyAddresses: [{ip: 10.1.0.3}]
  ports: [{name: http, port: 8080}, {name: dns, port: 5353, protocol: UDP}]
- ports: [{name: empty, port: 1}]
- addresses: [{ip: 10.1.0.7}]
---
apiVersion: v1
kind: Endpoints
metadata: {name: b-lease, namespace: kube-system, annotations: {control-plane.alpha.kubernetes.io/leader: x}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: shop}
spec: {nodeName: n1, containers: []}
status: {phase: Running, podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}, {ip: "fd00:1::1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b-old, namespace: shop}
spec: {containers: []}
status: {podIP: 10.1.0.2}
---
apiVersion: v1
kind: Pod
metadata: {name: c-host, namespace: shop}
spec: {hostNetwork: true, containers: []}
status: {phase: Running, podIP: 192.0.2.1, podIPs: [{ip: 192.0.2.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: d-ended, namespace: shop}
spec: {containers: []}
status: {phase: Succeeded, podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: e-none, namespace: shop}
spec: {dnsPolicy: None, dnsConfig: {nameservers: [10.1.0.100]}, containers: []}
status: {phase: Running, podIPs: [{ip: 10.1.0.5}]}
---
apiVersion: v1
kind: Pod
metadata: {name: f-default, namespace: shop}
spec: {dnsPolicy: Default, containers: []}
status: {phase: Running, podIPs: [{ip: 10.1.0.6}]}
---
apiVersion: v1
kind: Pod
metadata: {name: g-searches, namespace: shop}
spec: {dnsPolicy: ClusterFirst, dnsConfig: {searches: [corp.example.com]}, containers: []}
status: {phase: Running, podIPs: [{ip: 10.1.0.7}]}
---
apiVersion: v1
kind: Pod
metadata: {name: h-ndots, namespace: shop}
spec: {dnsPolicy: ClusterFirst, dnsConfig: {options: [{name: ndots, value: "2"}]}, containers: []}
status: {phase: Running, podIPs: [{ip: 10.1.0.8}]}
`

var kept = map[Kind][]Object{
	Services: {
		{Key: zone.Key{Namespace: "shop", Name: "a-web"}, Version: 1001, Value: &zone.Service{
			Key: zone.Key{Namespace: "shop", Name: "a-web"}, ClusterIPs: addrs("10.96.0.5", "fd00::5"), HasSelector: true,
			Ports: []zone.Port{{Name: "http", Number: 80}, {Name: "dns", Number: 53, Protocol: zone.UDP}, {Name: "sig", Number: 132, Protocol: zone.SCTP}},
		}},
		{Key: zone.Key{Namespace: "shop", Name: "b-old"}, Version: 1002, Value: &zone.Service{
			Key: zone.Key{Namespace: "shop", Name: "b-old"}, ClusterIPs: addrs("10.96.0.6"), Ports: []zone.Port{{Number: 80}},
		}},
		{Key: zone.Key{Namespace: "shop", Name: "c-headless"}, Version: 1003, Value: &zone.Service{
			Key: zone.Key{Namespace: "shop", Name: "c-headless"}, Kind: zone.Headless, PublishNotReady: true,
		}},
		{Key: zone.Key{Namespace: "shop", Name: "d-external"}, Version: 1004, Value: &zone.Service{
			Key: zone.Key{Namespace: "shop", Name: "d-external"}, Kind: zone.ExternalName, ExternalName: "www.example.test",
		}},
	},
	EndpointSlices: {
		{Key: zone.Key{Namespace: "shop", Name: "a-slice"}, Version: 1005, Triggered: time.Date(2026, 11, 22, 9, 37, 3, 0, time.UTC), Value: &zone.Slice{
			Key: zone.Key{Namespace: "shop", Name: "a-slice"}, Service: "web",
			Ports: []zone.Port{{Name: "http", Number: 8080}, {Name: "any"}},
			Endpoints: []zone.Endpoint{
				{Addr: netip.MustParseAddr("10.1.0.1"), Hostname: "web-0", Pod: "web-0", Zone: "z1", Ready: true},
				{Addr: netip.MustParseAddr("10.1.0.2")},
				{Addr: netip.MustParseAddr("10.1.0.3"), Ready: true},
				{Addr: netip.MustParseAddr("10.1.0.4"), Ready: true},
			},
		}},
		{Key: zone.Key{Namespace: "shop", Name: "b-names"}, Version: 1006, Value: &zone.Slice{
			Key: zone.Key{Namespace: "shop", Name: "b-names"}, Service: "names",
		}},
		{Key: zone.Key{Namespace: "shop", Name: "c-of-nobody"}, Version: 1007},
	},
	Endpoints: {
		{Key: zone.Key{Namespace: "kube-system", Name: "b-lease"}, Version: 1009},
		{Key: zone.Key{Namespace: "shop", Name: "a-web"}, Version: 1008, Value: []zone.Slice{
			{
				Ports: []zone.Port{{Name: "http", Number: 8080}, {Name: "dns", Number: 5353, Protocol: zone.UDP}},
				Endpoints: []zone.Endpoint{
					{Addr: netip.MustParseAddr("10.1.0.1"), Hostname: "web-0", Pod: "web-0", Ready: true},
					{Addr: netip.MustParseAddr("10.1.0.2"), Ready: true},
					{Addr: netip.MustParseAddr("10.1.0.3")},
				},
			},
			{Endpoints: []zone.Endpoint{{Addr: netip.MustParseAddr("10.1.0.7"), Ready: true}}},
		}},
	},
	Namespaces: {{Key: zone.Key{Name: "shop"}, Version: 1010, Value: Namespace{}}},
	Pods: {
		{Key: zone.Key{Namespace: "shop", Name: "a"}, Version: 1011, Value: &zone.Pod{
			Key: zone.Key{Namespace: "shop", Name: "a"}, Addrs: addrs("10.1.0.1", "fd00:1::1"),
		}},
		{Key: zone.Key{Namespace: "shop", Name: "b-old"}, Version: 1012, Value: &zone.Pod{
			Key: zone.Key{Namespace: "shop", Name: "b-old"}, Addrs: addrs("10.1.0.2"),
		}},
		{Key: zone.Key{Namespace: "shop", Name: "c-host"}, Version: 1013, Value: &zone.Pod{Key: zone.Key{Namespace: "shop", Name: "c-host"}}},
		{Key: zone.Key{Namespace: "shop", Name: "d-ended"}, Version: 1014, Value: &zone.Pod{Key: zone.Key{Namespace: "shop", Name: "d-ended"}}},
		{Key: zone.Key{Namespace: "shop", Name: "e-none"}, Version: 1015, Value: &zone.Pod{
			Key: zone.Key{Namespace: "shop", Name: "e-none"}, Addrs: addrs("10.1.0.5"), OwnSearch: true,
		}},
		{Key: zone.Key{Namespace: "shop", Name: "f-default"}, Version: 1016, Value: &zone.Pod{
			Key: zone.Key{Namespace: "shop", Name: "f-default"}, Addrs: addrs("10.1.0.6"), OwnSearch: true,
		}},
		{Key: zone.Key{Namespace: "shop", Name: "g-searches"}, Version: 1017, Value: &zone.Pod{
			Key: zone.Key{Namespace: "shop", Name: "g-searches"}, Addrs: addrs("10.1.0.7"), OwnSearch: true,
		}},
		{Key: zone.Key{Namespace: "shop", Name: "h-ndots"}, Version: 1018, Value: &zone.Pod{
			Key: zone.Key{Namespace: "shop", Name: "h-ndots"}, Addrs: addrs("10.1.0.8"),
		}},
	},
}

func TestListKeepsWhatDNSNeeds(t *testing.T) {
	s := kubetest.New()
	s.Apply(objects)
	for format, accept := range map[string]string{"protobuf": Accept, "JSON": "application/json"} {
		for kind, want := range kept {
			t.Run(format+" "+kind.String(), func(t *testing.T) {
				got, version := readList(t, s, kind, accept)
				if diff := cmp.Diff(want, got, sameSet); diff != "" {
					t.Error(diff)
				}
				if version != s.Version() {
					t.Errorf("list version %d, want %d", version, s.Version())
				}
			})
		}
	}
}

// TestFormatsAgree: both formats decode to the same objects, as written by real controllers.
func TestFormatsAgree(t *testing.T) {
	for _, file := range []string{"node-dns.static.yaml", "openshift-3.11.static.yaml"} {
		s := serverWith(t, file)
		for kind := range paths {
			protobuf, _ := readList(t, s, kind, Accept)
			fromJSON, _ := readList(t, s, kind, "application/json")
			if diff := cmp.Diff(protobuf, fromJSON, sameSet); diff != "" {
				t.Errorf("%s: %v: %s", file, kind, diff)
			}
			if len(protobuf) == 0 && (kind == Services || kind == Namespaces) {
				t.Errorf("%s has no %v", file, kind)
			}
		}
	}
}

// trailer is what k8s.io/api writes after a list: an empty contentEncoding and an empty
// contentType. A list is complete without them.
const trailer = "\x1a\x00\"\x00"

// TestListInPieces: a list may arrive in pieces of any size and may end anywhere.
func TestListInPieces(t *testing.T) {
	if lab.RaceEnabled {
		t.Skip("computes in one goroutine; make test runs it without -race")
	}
	s := serverWith(t, "node-dns.static.yaml")
	for format, accept := range map[Format]string{Protobuf: Accept, JSON: "application/json"} {
		body := get(t, s, paths[Services], accept).Body.String()
		read := func(r io.Reader) (n int, err error) {
			_, err = NewDecoder(Services).List(r, format, func(Object) error { n++; return nil })
			return n, err
		}
		whole, err := read(strings.NewReader(body))
		if err != nil || whole < 10 {
			t.Fatalf("got %d Services, error %v", whole, err)
		}
		if n, err := read(iotest.OneByteReader(strings.NewReader(body))); n != whole || err != nil {
			t.Errorf("byte by byte: %d Services of %d, %v", n, whole, err)
		}
		for cut := range len(strings.TrimSpace(body)) {
			n, err := read(strings.NewReader(body[:cut]))
			if err == nil && n == whole && cut >= len(body)-len(trailer) {
				continue
			}
			if n > whole || !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrMalformed) {
				t.Fatalf("cut after %d bytes: %d Services, error %v", cut, n, err)
			}
		}
	}
}

func TestListStopsWhenItsReaderSaysSo(t *testing.T) {
	s := serverWith(t, "node-dns.static.yaml")
	enough := errors.New("enough")
	for format, accept := range map[Format]string{Protobuf: Accept, JSON: "application/json"} {
		body := get(t, s, paths[Services], accept).Body
		n := 0
		_, err := NewDecoder(Services).List(body, format, func(Object) error {
			n++
			return enough
		})
		if n != 1 || !errors.Is(err, enough) {
			t.Errorf("%d Services, error %v", n, err)
		}
	}
}

func TestListThatIsNone(t *testing.T) {
	s := serverWith(t, "node-dns.static.yaml")
	huge := string(appendField(nil, 2, appendField(nil, 2, make([]byte, maxObject+1))))
	rows := []struct {
		name, body string
		format     Format
		want       error
	}{
		{"nothing", "", Protobuf, io.ErrUnexpectedEOF},
		{"empty, JSON", "", JSON, io.ErrUnexpectedEOF},
		{"HTML", "<html>a proxy's page</html>", Protobuf, ErrMalformed},
		{"HTML, JSON", "<html>", JSON, ErrMalformed},
		{"not a list", magic, Protobuf, ErrMalformed},
		{"not a list, JSON", "{}", JSON, ErrMalformed},
		{"items are an object", `{"items":{}}`, JSON, ErrMalformed},
		{"another kind", get(t, s, paths[Namespaces], Accept).Body.String(), Protobuf, ErrMalformed},
		{"another kind, JSON", get(t, s, paths[Namespaces], "application/json").Body.String(), JSON, ErrMalformed},
		{"page of a list", get(t, s, paths[Services]+"?limit=1", Accept).Body.String(), Protobuf, ErrMalformed},
		{"page of a list, JSON", get(t, s, paths[Services]+"?limit=1", "application/json").Body.String(), JSON, ErrMalformed},
		{"version is not a number", `{"metadata":{"resourceVersion":"x1"}}`, JSON, ErrMalformed},
		{"no name", `{"metadata":{"resourceVersion":"1"},"items":[{}]}`, JSON, ErrMalformed},
		{"huge object", magic + huge, Protobuf, ErrTooBig},
		{"huge object, JSON", `{"items":[{"a":"` + strings.Repeat("a", maxObject+readAhead) + `"}]}`, JSON, ErrTooBig},
		{"length beyond the body", magic + "\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x12\xff\xff\xff\xff\xff\x7f", Protobuf, ErrTooBig},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, err := NewDecoder(Services).List(strings.NewReader(row.body), row.format, func(Object) error { return nil })
			if !errors.Is(err, row.want) {
				t.Errorf("error %v, want %v", err, row.want)
			}
		})
	}
}
