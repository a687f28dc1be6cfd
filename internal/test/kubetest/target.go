package kubetest

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// resource is the name of a kind of object in API paths.
type resource string

var resources = []resource{"services", "endpointslices", "endpoints", "namespaces", "pods", "nodes", "configmaps", imports, operators}

// prefix returns the path prefix of the resource.
func (r resource) prefix() string {
	switch r {
	case "endpointslices":
		return "/apis/discovery.k8s.io/v1/"
	case operators:
		return "/apis/operator.openshift.io/v1/"
	case imports:
		return "/apis/multicluster.x-k8s.io/v1alpha1/"
	}
	return "/api/v1/"
}

// isCustom reports whether it is a custom resource, which an API server sends only as JSON.
func (r resource) isCustom() bool { return r == imports || r == operators }

// group returns the API group and version of the resource, such as "discovery.k8s.io/v1".
func (r resource) group() string {
	path := strings.Split(strings.Trim(r.prefix(), "/"), "/")
	return strings.Join(path[1:], "/")
}

const reviewPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// target is what a request asks for.
type target struct {
	resource  resource
	namespace string // "" means all
	watch     bool
	review    bool // a SelfSubjectAccessReview
	discovery bool // which resources the resource's API group has
	health    bool // health of the server

	version   uint64
	versioned bool // resourceVersion is set
	limit     int  // 0 means none
	bookmarks bool
	timeout   time.Duration // of a watch; 0 means none
	labels    labels.Selector
	fields    fields.Selector
}

// parseTarget parses a request. It returns false for a path outside the API.
func parseTarget(r *http.Request) (t target, ok bool) {
	switch path := strings.TrimSuffix(r.URL.Path, "/"); path {
	case reviewPath:
		t.review = true
		return t, true
	case "/healthz":
		t.health = true
		return t, true
	case "/apis/discovery.k8s.io/v1":
		t.discovery, t.resource = true, "endpointslices"
		return t, true
	case "/apis/operator.openshift.io/v1":
		t.discovery, t.resource = true, operators
		return t, true
	case "/apis/multicluster.x-k8s.io/v1alpha1":
		t.discovery, t.resource = true, imports
		return t, true
	default:
		if t.resource, t.namespace, ok = splitPath(path); !ok {
			return t, false
		}
	}
	q := r.URL.Query()
	t.watch = q.Get("watch") == "1" || q.Get("watch") == "true"
	t.bookmarks = q.Get("allowWatchBookmarks") == "true"
	t.limit, _ = strconv.Atoi(q.Get("limit"))
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	t.timeout = time.Duration(seconds) * time.Second
	var versionErr, labelErr, fieldErr error
	if text := q.Get("resourceVersion"); text != "" {
		t.version, versionErr = strconv.ParseUint(text, 10, 64)
		t.versioned = true
	}
	t.labels, labelErr = labels.Parse(q.Get("labelSelector"))
	t.fields, fieldErr = fields.ParseSelector(q.Get("fieldSelector"))
	return t, versionErr == nil && labelErr == nil && fieldErr == nil
}

// splitPath parses /api/v1/RESOURCE and /api/v1/namespaces/NAMESPACE/RESOURCE.
func splitPath(path string) (r resource, namespace string, ok bool) {
	for _, r := range resources {
		rest, found := strings.CutPrefix(path, r.prefix())
		if !found {
			continue
		}
		if rest == string(r) {
			return r, "", true
		}
		within, found := strings.CutPrefix(rest, "namespaces/")
		if namespace, name, two := strings.Cut(within, "/"); found && two && name == string(r) {
			return r, namespace, true
		}
	}
	return "", "", false
}

// matches reports whether the request asks for o, which may be nil.
func (t target) matches(o *object) bool {
	return o != nil && (t.namespace == "" || t.namespace == o.namespace) &&
		t.labels.Matches(o.labels) && t.fields.Matches(o.fields)
}
