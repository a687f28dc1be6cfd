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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Object is one object of the API, as a fixture has it.
type Object = unstructured.Unstructured

// Objects reads the documents of a YAML file.
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
		case len(object.Object) > 0: // not a comment alone
			all = append(all, object)
		}
	}
}

// connect makes the client that the methods below use.
func (c *Cluster) connect(kubeconfig []byte) error {
	var err error
	if c.admin, err = clientcmd.RESTConfigFromKubeConfig(kubeconfig); err != nil {
		return err
	}
	c.admin.WarningHandler = rest.NoWarnings{} // Endpoints are deprecated, and the fixtures have some
	c.admin.QPS, c.admin.Burst = -1, -1        // never wait
	c.dynamic, err = dynamic.NewForConfig(c.admin)
	return err
}

// Apply creates objects, with the status that they have. What is there already is left as it is.
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

// IsServersOwn reports whether an object is made by the API server for itself. Its port is another one in each run.
func IsServersOwn(o *Object) bool {
	return o.GetNamespace() == "default" && o.GetName() == "kubernetes"
}

// complete returns a copy of an object with what the API asks for and a fixture leaves out.
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

// completePod adds what the API asks of a pod and DNS does not. It is bound to the node from the beginning, and the annotations
// lab/ip and lab/ready say what the kubelet, which there is not, would say of it.
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

// completeService says how many families a Service has: without that, a headless one without selector gets all there are.
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

// PodStatus is what a kubelet says of a pod that runs.
func PodStatus(ip string, ready bool) map[string]any {
	condition := map[string]any{"type": "Ready", "status": "False", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
	if ready {
		condition["status"] = "True"
	}
	return map[string]any{
		"phase": "Running", "podIP": ip, "podIPs": []any{map[string]any{"ip": ip}}, "conditions": []any{condition},
	}
}

// NodeObject is the Node that the pods are on.
func NodeObject() *Object {
	return &Object{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": NodeName}}}
}

// PatchStatus sets an object's status, as the one does whose business it is.
func (c *Cluster) PatchStatus(ctx context.Context, object *Object, status any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = c.Client(object).Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// Client is the client for objects of the same kind and namespace.
func (c *Cluster) Client(object *Object) dynamic.ResourceInterface {
	kind := object.GroupVersionKind()
	resource := strings.ToLower(kind.Kind) + "s"
	switch kind.Kind {
	case "Endpoints":
		resource = "endpoints"
	case "DNS":
		resource = "dnses"
	}
	client := c.dynamic.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: resource})
	if object.GetNamespace() == "" {
		return client
	}
	return client.Namespace(object.GetNamespace())
}
