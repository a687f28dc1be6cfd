package kubetest

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
