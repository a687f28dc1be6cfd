package cluster

import (
	"net/url"
	"strconv"

	"github.com/node-dns/node-dns/internal/kubewire"
)

// slot is a place in the store for what one source tells of. An object belongs to the slot that told of it last, and
// only that slot can take it away again.
type slot uint8

// The slots. Those from namedSlot on are for the batches of named Services.
const (
	serviceSlot slot = iota
	namespaceSlot
	sliceSlot // headless or all slices, or all Endpoints
	podSlot
	namedSlot
)

// source is a collection of objects that is listed and watched. A source with another selector is another source.
type source struct {
	kind      kubewire.Kind
	slot      slot
	namespace string // "": all
	labels    string // label selector; "": all
	fields    string // field selector; "": all
}

// shape is what the API server has.
type shape uint8

const (
	unknownShape   shape = iota
	slicesShape          // EndpointSlices: Kubernetes 1.21 and later
	endpointsShape       // Endpoints alone: OpenShift 3.11, which is Kubernetes 1.11
)

const (
	serviceLabel  = "kubernetes.io/service-name"
	headlessLabel = "service.kubernetes.io/headless"
)

// running leaves out a Pod that has ended: it has no address any more, and a server that does not send it saves both sides
// work.
const running = "status.phase!=Succeeded,status.phase!=Failed"

// sources returns what is to be watched, in an order that does not change. The slices of headless Services carry a
// label of their own since Kubernetes 1.20, when endpointslice-controller makes them; those of Services without
// selector, which others make, do not: batches names these Services, in the selectors of namedSlot and those after it.
func sources(f Features, node string, has shape, batches []string) []source {
	all := []source{
		{kind: kubewire.Services, slot: serviceSlot},
		{kind: kubewire.Namespaces, slot: namespaceSlot},
	}
	switch {
	case has == endpointsShape:
		all = append(all, source{kind: kubewire.Endpoints, slot: sliceSlot})
	case f.AllSlices:
		all = append(all, source{kind: kubewire.EndpointSlices, slot: sliceSlot})
	default:
		all = append(all, source{kind: kubewire.EndpointSlices, slot: sliceSlot, labels: headlessLabel})
		for i, selector := range batches {
			all = append(all, source{kind: kubewire.EndpointSlices, slot: namedSlot + slot(i), labels: selector})
		}
	}
	switch {
	case f.AllPods:
		all = append(all, source{kind: kubewire.Pods, slot: podSlot, fields: running})
	case f.NodePods && node != "":
		all = append(all, source{kind: kubewire.Pods, slot: podSlot, fields: "spec.nodeName=" + node + "," + running})
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
	default:
		return "", "pods"
	}
}

// isAllPods reports whether it is every Pod, not those of this node alone.
func (s source) isAllPods() bool { return s.slot == podSlot && s.fields == running }

// path is where the API server has the source's objects.
func (s source) path() string {
	group, resource := resourceOf(s.kind)
	path := "/api/v1/"
	if group != "" {
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
	if s.labels != "" {
		q.Set("labelSelector", s.labels)
	}
	if s.fields != "" {
		q.Set("fieldSelector", s.fields)
	}
	return q
}

func formatVersion(version uint64) string { return strconv.FormatUint(version, 10) }
