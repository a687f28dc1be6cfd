package cluster

import (
	"net/url"
	"strconv"

	"github.com/node-dns/node-dns/internal/kubewire"
)

// source is a collection of objects that is listed and watched. A source with another selector is another source.
type source struct {
	kind      kubewire.Kind
	namespace string // "": all
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

// query selects the source's objects.
func (s source) query() url.Values {
	q := make(url.Values)
	if s.fields != "" {
		q.Set("fieldSelector", s.fields)
	}
	return q
}

func formatVersion(version uint64) string { return strconv.FormatUint(version, 10) }
