package kubetest

import (
	"fmt"
	"time"
)

// Shop returns the objects of a small cluster: the namespace shop with the service web, which has
// this ClusterIP.
func Shop(clusterIP string) string {
	return `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: ` + clusterIP + `, selector: {app: web}, ports: [{name: http, port: 80}]}
`
}

// HeadlessSlice returns the manifest of an EndpointSlice with one address, as a controller writes
// it for a headless Service after a change at the given time.
func HeadlessSlice(namespace, service, name, addr string, changed time.Time) string {
	return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: %s
  namespace: %s
  labels: {kubernetes.io/service-name: %s, service.kubernetes.io/headless: ""}
  annotations: {endpoints.kubernetes.io/last-change-trigger-time: %q}
addressType: IPv4
endpoints: [{addresses: [%s]}]
`, name, namespace, service, changed.UTC().Format(time.RFC3339Nano), addr)
}
