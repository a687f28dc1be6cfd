package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Object is an API object of a fixture.
type Object = unstructured.Unstructured

// Objects decodes the documents of a YAML file.
func Objects(file []byte) ([]*Object, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(file), 4096)
	var all []*Object
	for {
		object := new(Object)
		err := decoder.Decode(object)
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("reading objects: %w", err)
		case len(object.Object) > 0: // not only a comment
			all = append(all, object)
		}
	}
}

// connect creates the client for the methods below.
func (c *Cluster) connect(kubeconfig []byte) error {
	var err error
	if c.admin, err = clientcmd.RESTConfigFromKubeConfig(kubeconfig); err != nil {
		return err
	}
	c.admin.WarningHandler = rest.NoWarnings{} // Endpoints are deprecated, but the fixtures have some
	c.admin.QPS, c.admin.Burst = -1, -1        // no rate limit
	c.dynamic, err = dynamic.NewForConfig(c.admin)
	return err
}

// Clientset returns a typed client with all rights.
func (c *Cluster) Clientset() (*kubernetes.Clientset, error) { return kubernetes.NewForConfig(c.admin) }

// Apply creates objects with their status. It leaves existing objects as they are.
func (c *Cluster) Apply(ctx context.Context, objects ...*Object) error {
	for _, object := range objects {
		if err := c.apply(ctx, object); err != nil {
			return fmt.Errorf("creating %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
	}
	return nil
}

func (c *Cluster) apply(ctx context.Context, object *Object) error {
	if IsServersOwn(object) {
		return nil
	}
	sent := complete(object)
	_, err := c.Client(object).Create(ctx, sent, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if status, ok := sent.Object["status"]; err == nil && ok {
		err = c.PatchStatus(ctx, object, status)
	}
	return err
}

// IsServersOwn reports whether the API server itself creates the object. Its port differs in each
// run.
func IsServersOwn(o *Object) bool {
	return o.GetNamespace() == "default" && o.GetName() == "kubernetes"
}

// complete returns a copy of an object with fields that the API requires and fixtures omit.
func complete(object *Object) *Object {
	sent := object.DeepCopy()
	switch object.GetKind() {
	case "Pod":
		completePod(sent)
	case "Service":
		completeService(sent)
	}
	return sent
}

// completePod adds fields of a pod that the API requires and DNS does not. The pod is bound to the
// node. There is no kubelet; the annotations lab/ip and lab/ready replace its status.
func completePod(pod *Object) {
	spec, _ := pod.Object["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
		pod.Object["spec"] = spec
	}
	spec["nodeName"] = NodeName
	if spec["containers"] == nil {
		spec["containers"] = []any{map[string]any{"name": "c", "image": "x"}}
	}
	if ip := pod.GetAnnotations()["lab/ip"]; ip != "" {
		pod.Object["status"] = PodStatus(ip, pod.GetAnnotations()["lab/ready"] != "false")
	}
}

// completeService sets the number of IP families of a Service. Otherwise a headless one without a
// selector gets all of them.
func completeService(service *Object) {
	spec, _ := service.Object["spec"].(map[string]any)
	families, _ := spec["ipFamilies"].([]any)
	switch {
	case spec["ipFamilyPolicy"] != nil:
	case len(families) == 1:
		spec["ipFamilyPolicy"] = "SingleStack"
	case len(families) == 2:
		spec["ipFamilyPolicy"] = "RequireDualStack"
	}
}

// PodStatus returns a kubelet's status of a running pod.
func PodStatus(ip string, ready bool) map[string]any {
	condition := map[string]any{"type": "Ready", "status": "False", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
	if ready {
		condition["status"] = "True"
	}
	return map[string]any{
		"phase": "Running", "podIP": ip, "podIPs": []any{map[string]any{"ip": ip}}, "conditions": []any{condition},
	}
}

// NodeObject returns the Node of the pods.
func NodeObject() *Object {
	return &Object{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": NodeName}, "status": NodeStatus(),
	}}
}

// NodeStatus returns a kubelet's status of a node, as far as kube-scheduler needs it to bind pods.
func NodeStatus() map[string]any {
	return map[string]any{"allocatable": map[string]any{"cpu": "2", "memory": "4Gi", "pods": "110"}}
}

// PatchStatus sets an object's status, like the responsible controller.
func (c *Cluster) PatchStatus(ctx context.Context, object *Object, status any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = c.Client(object).Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// Client returns the client for objects of the same kind and namespace.
func (c *Cluster) Client(object *Object) dynamic.ResourceInterface {
	kind := object.GroupVersionKind()
	resource := strings.ToLower(kind.Kind) + "s"
	switch kind.Kind {
	case "Endpoints":
		resource = "endpoints"
	case "DNS":
		resource = "dnses"
	case "CiliumLocalRedirectPolicy":
		resource = "ciliumlocalredirectpolicies"
	}
	client := c.dynamic.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: resource})
	if object.GetNamespace() == "" {
		return client
	}
	return client.Namespace(object.GetNamespace())
}
