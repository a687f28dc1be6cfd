package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// podPatience bounds the wait of an admin for the API server.
const podPatience = 3 * time.Second

// PodDNS is the DNS part of a core/v1 PodSpec.
type PodDNS struct {
	Policy      string `json:"dnsPolicy"`
	HostNetwork bool   `json:"hostNetwork"`
	Config      struct {
		Nameservers []string `json:"nameservers"`
		Searches    []string `json:"searches"`
		Options     []struct {
			Name  string  `json:"name"`
			Value *string `json:"value"`
		} `json:"options"`
	} `json:"dnsConfig"`
}

// FetchPodDNS requests a Pod of this node from the API server. The error matches fs.ErrNotExist if
// the node has no such Pod. The request is a list selected by node name: a kubelet's certificate
// and the watch right of autopath both allow that.
func FetchPodDNS(ctx context.Context, config Config, pod zone.Key) (PodDNS, error) {
	c, err := connect(config)
	if err != nil {
		return PodDNS{}, err
	}
	defer c.close()
	ctx, cancel := context.WithTimeoutCause(ctx, podPatience, errStalled)
	defer cancel()
	query := url.Values{"fieldSelector": {"metadata.name=" + pod.Name + ",spec.nodeName=" + config.NodeName}}
	path := "/api/v1/namespaces/" + url.PathEscape(pod.Namespace) + "/pods"
	right := Right{Verb: "list", Resource: "pods", Namespace: pod.Namespace}
	var list struct {
		Items []struct {
			Spec PodDNS `json:"spec"`
		} `json:"items"`
	}
	if err := c.api.fetch(ctx, http.MethodGet, path, query, nil, right, &list); err != nil {
		return PodDNS{}, err
	}
	if len(list.Items) == 0 {
		return PodDNS{}, fmt.Errorf("the node %s has no pod %s/%s: %w", config.NodeName, pod.Namespace, pod.Name, fs.ErrNotExist)
	}
	return list.Items[0].Spec, nil
}
