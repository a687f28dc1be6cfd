package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/node-dns/node-dns/test/e2e/kube"
)

func scaleSpace(i int) string { return fmt.Sprintf("scale-%d", i%scaleSpaces) }

func scaleName(i int) string { return fmt.Sprintf("service-%d.%s.svc.cluster.local", i, scaleSpace(i)) }

// scaleAddr returns the Service's ClusterIP, or the first endpoint of a headless one.
func scaleAddr(i int) string {
	if i%scaleHeadless == 0 {
		return scaleEndpoint(i, 0)
	}
	return netip.AddrFrom4([4]byte{10, 100, byte(i >> 8), byte(i)}).String()
}

func scaleEndpoint(i, j int) string {
	n := i*scaleEndpoints + j
	return netip.AddrFrom4([4]byte{172, 16 + byte(n>>16), byte(n >> 8), byte(n)}).String()
}

// scaleService returns a Service that also has what API clients add: labels and kubectl's
// annotation.
func scaleService(t testing.TB, i int) *kube.Object {
	ip := scaleAddr(i)
	if i%scaleHeadless == 0 {
		ip = "None"
	}
	return object(t, `
apiVersion: v1
kind: Service
metadata:
  name: service-%[1]d
  namespace: %[2]s
  labels: {app.kubernetes.io/name: service-%[1]d, app.kubernetes.io/managed-by: Helm, app.kubernetes.io/part-of: application-%[1]d}
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"apiVersion":"v1","kind":"Service","metadata":{"annotations":{},"labels":{"app.kubernetes.io/name":"service-%[1]d"},"name":"service-%[1]d","namespace":"%[2]s"},"spec":{"ports":[{"name":"http","port":80},{"name":"metrics","port":9090}],"selector":{"app.kubernetes.io/name":"service-%[1]d"}}}'
spec:
  clusterIP: %[3]s
  selector: {app.kubernetes.io/name: service-%[1]d}
  ports:
  - {name: http, port: 80, targetPort: 8080, protocol: TCP}
  - {name: metrics, port: 9090, targetPort: 9090, protocol: TCP}
`, i, scaleSpace(i), ip)
}

// scaleSlice returns a slice as endpointslice-controller writes it. Either all of its endpoints are
// ready or none are.
func scaleSlice(t testing.TB, i int, ready bool) *kube.Object {
	headless := ""
	if i%scaleHeadless == 0 {
		headless = `service.kubernetes.io/headless: "", `
	}
	o := object(t, `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: service-%[1]d-abcde
  namespace: %[2]s
  generateName: service-%[1]d-
  labels: {%[3]skubernetes.io/service-name: service-%[1]d, endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io, app.kubernetes.io/name: service-%[1]d}
  annotations: {endpoints.kubernetes.io/last-change-trigger-time: "2026-11-20T12:00:00Z"}
  ownerReferences: [{apiVersion: v1, kind: Service, name: service-%[1]d, uid: 6f2d4c1a-0000-4000-8000-%012[1]d, controller: true, blockOwnerDeletion: true}]
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}, {name: metrics, port: 9090, protocol: TCP}]
`, i, scaleSpace(i), headless)
	var endpoints []any
	for j := range scaleEndpoints {
		pod := fmt.Sprintf("service-%d-%d", i, j)
		endpoint := map[string]any{
			"addresses":  []any{scaleEndpoint(i, j)},
			"conditions": map[string]any{"ready": ready, "serving": ready, "terminating": false},
			"nodeName":   fmt.Sprintf("node-%d", (i+j)%500), "zone": fmt.Sprintf("zone-%d", j%3),
			"targetRef": map[string]any{
				"kind": "Pod", "namespace": scaleSpace(i), "name": pod, "uid": fmt.Sprintf("0a1b2c3d-0000-4000-8000-%06d%06d", i, j),
			},
		}
		if headless != "" {
			endpoint["hostname"] = pod
		}
		endpoints = append(endpoints, endpoint)
	}
	o.Object["endpoints"] = endpoints
	return o
}
