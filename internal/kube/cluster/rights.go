package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/node-dns/node-dns/internal/kube/kubewire"
)

// Right is a permission that RBAC grants.
type Right struct {
	Verb      string `json:"verb"`            // "list" or "watch"
	Group     string `json:"group,omitempty"` // empty for the core group
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"` // empty for all namespaces
	Name      string `json:"name,omitempty"`      // empty for all objects
}

// String formats the right as an argument of `kubectl auth can-i`.
func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += "/" + r.Name
	}
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

func rightTo(verb string, s source) Right {
	group, resource := resourceOf(s.kind)
	return Right{Verb: verb, Group: group, Resource: resource, Namespace: s.namespace, Name: s.name}
}

// MissingRights asks the API server which rights needed by config it would deny. On an error it
// also returns the rights denied so far.
func MissingRights(ctx context.Context, config Config) ([]Right, error) {
	c, err := connect(config)
	if err != nil {
		return nil, err
	}
	defer c.close()
	has, _, err := c.api.shape(ctx)
	if err != nil {
		return nil, err
	}
	wanted := sources(config.Features, config.NodeName, has)
	if config.Features.Settings {
		wanted = append(wanted, settingSources()...)
		isOpenShift, err := c.api.hasGroup(ctx, operatorPath, "dnses")
		if _, isStatus := status(err); err != nil && !isStatus {
			return nil, err
		}
		if !isOpenShift {
			wanted = slices.DeleteFunc(wanted, func(s source) bool { return s.kind == kubewire.DNSes })
		}
	}
	var missing []Right
	for _, s := range wanted {
		for _, verb := range []string{"list", "watch"} {
			right := rightTo(verb, s)
			allowed, err := c.api.allows(ctx, right, s.fields)
			if err != nil {
				return missing, fmt.Errorf("asking for the right to %s: %w", right, err)
			}
			if !allowed {
				missing = append(missing, right)
			}
		}
	}
	return missing, nil
}

// review is an authorization.k8s.io/v1 SelfSubjectAccessReview.
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Attributes struct {
			Right
			FieldSelector *rawSelector `json:"fieldSelector,omitempty"`
		} `json:"resourceAttributes"`
	} `json:"spec"`
	Status struct {
		Allowed bool `json:"allowed"`
	} `json:"status"`
}

// rawSelector is a selector in the form of a request parameter. Servers before Kubernetes 1.31
// ignore it.
type rawSelector struct {
	Raw string `json:"rawSelector"`
}

// allows reports whether the server would grant the right for the objects that a field selector
// selects. A kubelet's certificate may list only the pods of its own node.
func (a *api) allows(ctx context.Context, right Right, fields string) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errStalled)
	defer cancel()
	ask := review{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}
	ask.Spec.Attributes.Right = right
	if fields != "" {
		ask.Spec.Attributes.FieldSelector = &rawSelector{fields}
	}
	var answer review
	const path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	toAsk := Right{Verb: "create", Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}
	err := a.fetch(ctx, http.MethodPost, path, nil, ask, toAsk, &answer)
	return err == nil && answer.Status.Allowed, err
}

// shape asks which of the optional APIs the server has. isSure is false if the server does not
// report whether it has ServiceImports, such as while it starts or if that API group is broken. The
// cluster's own names do not wait for that.
func (a *api) shape(ctx context.Context) (has shape, isSure bool, err error) {
	hasSlices, err := a.hasGroup(ctx, "/apis/discovery.k8s.io/v1", "")
	switch {
	case hasCode(err, http.StatusForbidden): // a client may use APIs that it may not discover
	case err != nil:
		return unknownShape, false, err
	case !hasSlices:
		return endpointsShape, true, nil
	}
	// The group may have only other resources, such as ServiceExports.
	hasImports, err := a.hasGroup(ctx, "/apis/"+importsGroup+"/"+importsVersion, "serviceimports")
	_, isStatus := status(err)
	switch {
	case isStatus, errors.Is(err, kubewire.ErrMalformed):
		return slicesShape, false, nil
	case err != nil:
		return unknownShape, false, err
	case hasImports:
		return importsShape, true, nil
	}
	return slicesShape, true, nil
}

// hasGroup reports whether the server has a resource of an API group. It fails if the client may
// not ask.
func (a *api) hasGroup(ctx context.Context, path string, resource string) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errStalled)
	defer cancel()
	type named struct {
		Name string `json:"name"`
	}
	var list struct {
		Resources []named `json:"resources"`
	}
	var answer any
	if resource != "" {
		answer = &list
	}
	err := a.fetch(ctx, http.MethodGet, path, nil, nil, Right{Verb: "get", Resource: path}, answer)
	if hasCode(err, http.StatusNotFound) {
		return false, nil
	}
	return err == nil && (resource == "" || slices.Contains(list.Resources, named{resource})), err
}
