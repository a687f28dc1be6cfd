package cluster

import (
	"net/url"
	"strconv"

	"github.com/node-dns/node-dns/internal/kube/kubewire"
)

// source is a collection of objects that is listed and watched. A source with another selector is another source.
type source struct {
	kind      kubewire.Kind
	namespace string // "": all
	name      string // of the one object; "": all
	fields    string // field selector; "": all
}

// shape is what the API server has.
type shape uint8

const (
	unknownShape   shape = iota
	slicesShape          // EndpointSlices: Kubernetes 1.21 and later
	endpointsShape       // Endpoints alone: OpenShift 3.11, which is Kubernetes 1.11
	importsShape         // EndpointSlices and ServiceImports: a cluster of a set (KEP-1645)
)

// running leaves out a Pod that has ended: it has no address any more, and a server that does not send it saves both sides
// work.
const running = "status.phase!=Succeeded,status.phase!=Failed"

// sources returns what is to be watched, one of each kind, in an order that does not change.
func sources(f Features, node string, has shape) []source {
	all := []source{{kind: kubewire.Services}, {kind: kubewire.Namespaces}, {kind: kubewire.EndpointSlices}}
	switch has {
	case endpointsShape:
		all[2].kind = kubewire.Endpoints
	case importsShape:
		all = append(all, source{kind: kubewire.ServiceImports})
	}
	if f.NodeZone && node != "" {
		all = append(all, source{kind: kubewire.Nodes, fields: "metadata.name=" + node})
	}
	switch {
	case f.AllPods:
		all = append(all, source{kind: kubewire.Pods, fields: running})
	case f.NodePods && node != "":
		all = append(all, source{kind: kubewire.Pods, fields: "spec.nodeName=" + node + "," + running})
	}
	return all
}

// settingSources are the objects that configure a cluster's own DNS: CoreDNS's ConfigMap under the names that kubeadm and RKE2 give it, what AKS
// and k3s have it import, kube-dns's, and OpenShift's for its operator.
func settingSources() []source {
	var all []source
	for _, name := range []string{"coredns", "coredns-custom", "kube-dns", "rke2-coredns-rke2-coredns"} {
		all = append(all, source{kind: kubewire.ConfigMaps, namespace: "kube-system", name: name})
	}
	return append(all, source{kind: kubewire.DNSes, name: "default"})
}

// resourceOf names what a kind is called in paths and rights, and its group ("": core).
func resourceOf(kind kubewire.Kind) (group, resource string) {
	switch kind {
	case kubewire.Services:
		return "", "services"
	case kubewire.EndpointSlices:
		return "discovery.k8s.io", "endpointslices"
	case kubewire.Endpoints:
		return "", "endpoints"
	case kubewire.Namespaces:
		return "", "namespaces"
	case kubewire.Nodes:
		return "", "nodes"
	case kubewire.ServiceImports:
		return importsGroup, "serviceimports"
	case kubewire.ConfigMaps:
		return "", "configmaps"
	case kubewire.DNSes:
		return "operator.openshift.io", "dnses"
	default:
		return "", "pods"
	}
}

// The group and the version of ServiceImports.
const (
	importsGroup   = "multicluster.x-k8s.io"
	importsVersion = "v1alpha1"
)

// isAllPods reports whether it is every Pod, not those of this node alone.
func (s source) isAllPods() bool { return s.kind == kubewire.Pods && s.fields == running }

// path is where the API server has the source's objects.
func (s source) path() string {
	group, resource := resourceOf(s.kind)
	path := "/api/v1/"
	switch group {
	case "":
	case importsGroup:
		path = "/apis/" + group + "/" + importsVersion + "/"
	default:
		path = "/apis/" + group + "/v1/"
	}
	if s.namespace != "" {
		path += "namespaces/" + s.namespace + "/"
	}
	return path + resource
}

// operatorPath is where the API of OpenShift's operators is.
const operatorPath = "/apis/operator.openshift.io/v1"

// accept is the request header that asks for a format that is read here.
func (s source) accept() string {
	if s.kind == kubewire.ConfigMaps || s.kind == kubewire.DNSes {
		return kubewire.AcceptJSON
	}
	return kubewire.Accept
}

// query selects the source's objects.
func (s source) query() url.Values {
	q := make(url.Values)
	switch {
	case s.name != "": // which RBAC takes for the name that resourceNames has
		q.Set("fieldSelector", "metadata.name="+s.name)
	case s.fields != "":
		q.Set("fieldSelector", s.fields)
	}
	return q
}

func formatVersion(version uint64) string { return strconv.FormatUint(version, 10) }
