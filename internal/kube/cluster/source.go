package cluster

import (
	"net/url"
	"strconv"

	"github.com/node-dns/node-dns/internal/kube/kubewire"
)

// source is a collection of objects that is listed and watched. Another selector makes another
// source.
type source struct {
	kind      kubewire.Kind
	namespace string // empty for all
	name      string // of the single object; empty for all
	fields    string // field selector; empty for all
}

// shape is the set of optional APIs that the API server has.
type shape uint8

const (
	unknownShape   shape = iota
	slicesShape          // EndpointSlices: Kubernetes 1.21 and later
	endpointsShape       // only Endpoints: OpenShift 3.11, which is Kubernetes 1.11
	importsShape         // EndpointSlices and ServiceImports: a cluster in a clusterset (KEP-1645)
)

// running excludes finished Pods. They have no address, and filtering on the server saves work on
// both sides.
const running = "status.phase!=Succeeded,status.phase!=Failed"

// sources returns the sources to watch, one of each kind, in a stable order.
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

// settingSources returns the objects that configure a cluster's own DNS: CoreDNS's ConfigMap under
// its kubeadm and RKE2 names, the one that AKS and k3s import into it, kube-dns's ConfigMap, and
// the object of OpenShift's DNS operator.
func settingSources() []source {
	var all []source
	for _, name := range []string{"coredns", "coredns-custom", "kube-dns", "rke2-coredns-rke2-coredns"} {
		all = append(all, source{kind: kubewire.ConfigMaps, namespace: "kube-system", name: name})
	}
	return append(all, source{kind: kubewire.DNSes, name: "default"})
}

// resourceOf returns a kind's name in paths and rights, and its group, which is empty for core.
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

const (
	importsGroup   = "multicluster.x-k8s.io"
	importsVersion = "v1alpha1"
)

// isAllPods reports whether the source covers every Pod, not only those of this node.
func (s source) isAllPods() bool { return s.kind == kubewire.Pods && s.fields == running }

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

// operatorPath is the URL path of the API of OpenShift's operators.
const operatorPath = "/apis/operator.openshift.io/v1"

// accept returns the Accept header for formats that this package decodes.
func (s source) accept() string {
	if s.kind == kubewire.ConfigMaps || s.kind == kubewire.DNSes {
		return kubewire.AcceptJSON
	}
	return kubewire.Accept
}

func (s source) query() url.Values {
	q := make(url.Values)
	switch {
	case s.name != "": // RBAC matches this selector with resourceNames
		q.Set("fieldSelector", "metadata.name="+s.name)
	case s.fields != "":
		q.Set("fieldSelector", s.fields)
	}
	return q
}

func formatVersion(version uint64) string { return strconv.FormatUint(version, 10) }
