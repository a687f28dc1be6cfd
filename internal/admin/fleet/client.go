package fleet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Node is a node of the cluster.
type Node struct {
	Name      string
	OS        string // such as linux; empty if the kubelet has not reported it
	Addresses []string
	// LostSince is the time of the last sign of the kubelet if the node controller has lost it, and
	// zero otherwise.
	LostSince time.Time
}

// Pod is a pod of node-dns.
type Pod struct {
	Name, Node string
	// Why says why no program can run in the container. It is empty if one can.
	Why string
	// IsLeaving is set for a pod that is being deleted.
	IsLeaving bool
}

// Client accesses the API. Its methods are safe for concurrent use.
type Client struct {
	config     *rest.Config
	api        *rest.RESTClient
	parameters runtime.ParameterCodec
	namespace  string
	container  string
}

// page is the number of objects that one request lists.
const page = 500

// newClient returns a client for the pods of a namespace. container is where programs run.
func newClient(config *rest.Config, namespace, container string) (*Client, error) {
	scheme := runtime.NewScheme() // client-go's own has all groups of the API
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	api, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Client{config: config, api: api, parameters: runtime.NewParameterCodec(scheme), namespace: namespace, container: container}, nil
}

// Nodes lists the nodes that match a label selector. If name is set, only that node is listed.
func (c *Client) Nodes(ctx context.Context, selector, name string) ([]Node, error) {
	var all []Node
	err := each(ctx, c, "", "nodes", options(selector, "metadata.name", name), func(list *corev1.NodeList) {
		for i := range list.Items {
			all = append(all, nodeOf(&list.Items[i]))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return all, nil
}

// Pods lists the pods that match a label selector. If node is set, only those on that node are
// listed.
func (c *Client) Pods(ctx context.Context, selector, node string) ([]Pod, error) {
	var all []Pod
	err := each(ctx, c, c.namespace, "pods", options(selector, "spec.nodeName", node), func(list *corev1.PodList) {
		for i := range list.Items {
			all = append(all, podOf(&list.Items[i], c.container))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing pods in %s: %w", c.namespace, err)
	}
	return all, nil
}

// options selects objects by their labels and, if value is set, by the value of a field.
func options(selector, field, value string) metav1.ListOptions {
	o := metav1.ListOptions{LabelSelector: selector, Limit: page}
	if value != "" {
		o.FieldSelector = fields.OneTermEqualSelector(field, value).String()
	}
	return o
}

// each passes all pages of a list to take. Without a namespace, the list is the cluster's.
func each[L any, P interface {
	*L
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, c *Client, namespace, resource string, options metav1.ListOptions, take func(P)) error {
	for {
		list := P(new(L))
		request := c.api.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource)
		if err := request.VersionedParams(&options, c.parameters).Do(ctx).Into(list); err != nil {
			return denied(err)
		}
		take(list)
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// NodeOf returns the node of any pod, or an error if it has none yet.
func (c *Client) NodeOf(ctx context.Context, namespace, name string) (string, error) {
	var pod corev1.Pod
	if err := c.api.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(&pod); err != nil {
		return "", fmt.Errorf("reading pod %s/%s: %w", namespace, name, denied(err))
	}
	if pod.Spec.NodeName == "" {
		return "", fmt.Errorf("pod %s/%s is on no node yet", namespace, name)
	}
	return pod.Spec.NodeName, nil
}

func nodeOf(n *corev1.Node) Node {
	node := Node{Name: n.Name, OS: n.Labels[corev1.LabelOSStable]}
	for _, address := range n.Status.Addresses {
		if address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP {
			node.Addresses = append(node.Addresses, address.Address)
		}
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionUnknown {
			node.LostSince = condition.LastHeartbeatTime.Time
			if node.LostSince.IsZero() {
				node.LostSince = condition.LastTransitionTime.Time
			}
		}
	}
	return node
}

func podOf(p *corev1.Pod, container string) Pod {
	pod := Pod{Name: p.Name, Node: p.Spec.NodeName, IsLeaving: p.DeletionTimestamp != nil, Why: string(p.Status.Phase)}
	if p.Status.Reason != "" {
		pod.Why = p.Status.Reason // such as Evicted
	}
	for _, status := range p.Status.ContainerStatuses {
		if status.Name != container {
			continue
		}
		switch state := status.State; {
		case state.Running != nil:
			pod.Why = ""
		case state.Waiting != nil && state.Waiting.Reason != "":
			pod.Why = state.Waiting.Reason
		case state.Terminated != nil && state.Terminated.Reason != "":
			pod.Why = state.Terminated.Reason
		}
		return pod
	}
	if pod.Why == "" {
		pod.Why = "Pending"
	}
	return pod
}
