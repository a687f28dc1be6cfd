package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// endpoints are the endpoints of Services, by NAMESPACE/NAME: sorted strings of address, hostname
// and readiness. A Service without endpoints has an entry if the controllers write a slice for it.
type endpoints map[string][]string

// AwaitEndpoints waits until LackingEndpoints finds no difference, because the controllers write
// slices some time after Apply has returned. If ctx ends first, the error lists the differences.
func (c *Cluster) AwaitEndpoints(ctx context.Context, objects ...*Object) error {
	lacking := []string{"the slices were never read"}
	for {
		now, err := c.LackingEndpoints(ctx, objects...)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("waiting for the endpoints of services: %w: %s", ctx.Err(), strings.Join(lacking, "; "))
		case err != nil:
			return err
		case len(now) == 0:
			return nil
		}
		lacking = now
		time.Sleep(50 * time.Millisecond)
	}
}

// LackingEndpoints compares the EndpointSlices with those that the controllers derive from objects,
// for Services with a selector and for Endpoints. It returns a message for each Service whose
// endpoints differ.
func (c *Cluster) LackingEndpoints(ctx context.Context, objects ...*Object) ([]string, error) {
	want, err := impliedEndpoints(objects)
	if err != nil {
		return nil, fmt.Errorf("reading fixtures: %w", err)
	}
	have, err := c.currentEndpoints(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading slices: %w", err)
	}
	var all []string
	for service, endpoints := range want {
		has, ok := have[service]
		switch {
		case !ok:
			all = append(all, fmt.Sprintf("%s has no slice, want %q", service, endpoints))
		case !slices.Equal(has, endpoints):
			all = append(all, fmt.Sprintf("%s has %q, want %q", service, has, endpoints))
		}
	}
	slices.Sort(all)
	return all, nil
}

// currentEndpoints returns the endpoints in the API server's watch cache, as in the daemon's first
// list (resourceVersion=0). They may be older than etcd's.
func (c *Cluster) currentEndpoints(ctx context.Context) (endpoints, error) {
	resource := discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	list, err := c.dynamic.Resource(resource).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	all := endpoints{}
	for _, o := range list.Items {
		var slice discoveryv1.EndpointSlice
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &slice); err != nil {
			return nil, err
		}
		service := slice.Labels[discoveryv1.LabelServiceName]
		all.add(slice.Namespace, service)
		for _, e := range slice.Endpoints {
			hostname, isReady := "", e.Conditions.Ready == nil || *e.Conditions.Ready
			if e.Hostname != nil {
				hostname = *e.Hostname
			}
			for _, address := range e.Addresses {
				all.add(slice.Namespace, service, endpoint(address, hostname, isReady))
			}
		}
	}
	return all, nil
}

// impliedEndpoints returns the endpoints that endpointslice-controller and
// endpointslice-mirroring-controller derive from objects.
func impliedEndpoints(objects []*Object) (endpoints, error) {
	all := endpoints{}
	var services []corev1.Service
	var pods []corev1.Pod
	for _, o := range objects {
		if IsServersOwn(o) {
			continue
		}
		o = complete(o)
		var err error
		switch o.GetKind() {
		case "Service":
			services = append(services, corev1.Service{})
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &services[len(services)-1])
		case "Pod":
			pods = append(pods, corev1.Pod{})
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &pods[len(pods)-1])
		case "Endpoints":
			err = all.mirror(o)
		}
		if err != nil {
			return nil, fmt.Errorf("%s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
		}
	}
	for _, s := range services {
		if len(s.Spec.Selector) == 0 {
			continue
		}
		all.add(s.Namespace, s.Name)
		selected := labels.SelectorFromSet(s.Spec.Selector)
		for _, p := range pods {
			if p.Namespace != s.Namespace || p.Status.PodIP == "" || !selected.Matches(labels.Set(p.Labels)) {
				continue
			}
			hostname := ""
			if p.Spec.Subdomain == s.Name {
				hostname = p.Spec.Hostname
			}
			all.add(s.Namespace, s.Name, endpoint(p.Status.PodIP, hostname, s.Spec.PublishNotReadyAddresses || isReady(&p)))
		}
	}
	return all, nil
}

// mirror adds the endpoints of an Endpoints object.
func (all endpoints) mirror(o *Object) error {
	//lint:ignore SA1019 the fixtures have Endpoints, which the API still serves and mirrors
	var e corev1.Endpoints
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &e); err != nil {
		return err
	}
	for _, subset := range e.Subsets {
		for _, a := range subset.Addresses {
			all.add(e.Namespace, e.Name, endpoint(a.IP, a.Hostname, true))
		}
		for _, a := range subset.NotReadyAddresses {
			all.add(e.Namespace, e.Name, endpoint(a.IP, a.Hostname, false))
		}
	}
	return nil
}

// add adds endpoints to those of a Service, without duplicates.
func (all endpoints) add(namespace, service string, some ...string) {
	key := namespace + "/" + service
	sum := append(all[key], some...)
	slices.Sort(sum)
	all[key] = slices.Compact(sum)
}

func endpoint(address, hostname string, isReady bool) string {
	text := address
	if hostname != "" {
		text += " " + hostname
	}
	if !isReady {
		text += " not ready"
	}
	return text
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
