package kubetest

import (
	"fmt"
	"time"
)

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
