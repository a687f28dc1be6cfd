package kubetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Object is an object of k8s.io/api: a *corev1.Service, *corev1.Endpoints, *corev1.Namespace,
// *corev1.Pod, *corev1.Node, *corev1.ConfigMap or *discoveryv1.EndpointSlice, or else a
// *ServiceImport or a *DNS.
type Object interface {
	metav1.Object
	runtime.Object
	Marshal() ([]byte, error)
}

// object is a stored Object: encoded, and immutable.
type object struct {
	resource  resource
	namespace string
	name      string
	version   uint64
	labels    labels.Set
	fields    fields.Set
	source    Object
	protobuf  []byte // without envelope
}

func (o *object) key() string { return o.namespace + "/" + o.name }

// Parse parses objects from YAML documents. It skips other kinds.
func Parse(text string) ([]Object, error) {
	var all []Object
	for document := range strings.SplitSeq(text, "\n---") {
		var typeMeta metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &typeMeta); err != nil {
			return nil, fmt.Errorf("parsing objects: %w", err)
		}
		o := newObject(typeMeta.Kind)
		if o == nil {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(document), o); err != nil {
			return nil, fmt.Errorf("parsing a %s: %w", typeMeta.Kind, err)
		}
		all = append(all, o)
	}
	return all, nil
}

func newObject(kind string) Object {
	switch kind {
	case "Service":
		return new(corev1.Service)
	case "EndpointSlice":
		return new(discoveryv1.EndpointSlice)
	case "Endpoints":
		//lint:ignore SA1019 old clusters have it
		return new(corev1.Endpoints)
	case "Namespace":
		return new(corev1.Namespace)
	case "Pod":
		return new(corev1.Pod)
	case "Node":
		return new(corev1.Node)
	case "ConfigMap":
		return new(corev1.ConfigMap)
	case "DNS":
		return new(DNS)
	case "ServiceImport":
		return new(ServiceImport)
	}
	return nil
}

func resourceOf(o Object) (r resource, kind, group string) {
	switch o.(type) {
	case *corev1.Service:
		return "services", "Service", "v1"
	case *discoveryv1.EndpointSlice:
		return "endpointslices", "EndpointSlice", "discovery.k8s.io/v1"
	//lint:ignore SA1019 old clusters have it
	case *corev1.Endpoints:
		return "endpoints", "Endpoints", "v1"
	case *corev1.Namespace:
		return "namespaces", "Namespace", "v1"
	case *corev1.Pod:
		return "pods", "Pod", "v1"
	case *corev1.Node:
		return "nodes", "Node", "v1"
	case *corev1.ConfigMap:
		return "configmaps", "ConfigMap", "v1"
	case *DNS:
		return operators, "DNS", "operator.openshift.io/v1"
	case *ServiceImport:
		return imports, "ServiceImport", "multicluster.x-k8s.io/v1alpha1"
	}
	panic(fmt.Sprintf("kubetest: no resource for %T", o))
}

// encode makes an object of o at version. Like a server, it sets o's version and type.
func encode(o Object, version uint64) *object {
	r, kind, group := resourceOf(o)
	o.SetResourceVersion(strconv.FormatUint(version, 10))
	data, err := o.Marshal()
	if err != nil {
		panic(fmt.Sprintf("kubetest: encoding a %s: %v", kind, err))
	}
	made := &object{
		resource: r, namespace: o.GetNamespace(), name: o.GetName(), version: version,
		labels: maps.Clone(o.GetLabels()), source: o.DeepCopyObject().(Object), protobuf: data,
		fields: fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()},
	}
	if pod, ok := o.(*corev1.Pod); ok {
		made.fields["spec.nodeName"] = pod.Spec.NodeName
		made.fields["status.phase"] = string(pod.Status.Phase)
		made.fields["status.podIP"] = pod.Status.PodIP // the first of status.podIPs
	}
	made.source.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(group, kind))
	return made
}

func (o *object) json() []byte {
	data, err := json.Marshal(o.source)
	if err != nil {
		panic(fmt.Sprintf("kubetest: encoding %s: %v", o.key(), err))
	}
	return data
}
