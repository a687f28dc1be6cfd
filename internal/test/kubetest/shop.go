package kubetest

// Shop are the objects of a small cluster: the namespace shop, and in it the service web with this address.
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
