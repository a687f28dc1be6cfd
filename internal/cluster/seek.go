package cluster

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/node-dns/node-dns/internal/kubewire"
	"github.com/node-dns/node-dns/internal/zone"
)

const (
	notHeadless = "!" + headlessLabel // headless Services' slices are watched
	// byOthers selects the slices that endpointslice-controller has not made of a Service's selector: those that were
	// mirrored from Endpoints or written by hand, whose addresses need not be of Pods.
	byOthers = notHeadless + "," + serviceLabel + ",endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io"

	maxNamespaces = 4               // that are looked into for one address
	podsAgain     = 5 * time.Minute // after how long the right to list Pods is tried again
)

// errManyNamespaces ends the reading of Pods.
var errManyNamespaces = errors.New("pods of many namespaces have the address")

// seeker finds the slices that have an address. The API selects none by that, but Pods: by their first address. It is
// for one goroutine.
type seeker struct {
	api     *api
	isFirst func(netip.Addr) bool
	denied  time.Time // when Pods were denied last
	read    int       // slices that the last search has read
}

// seek returns the slices that have addr, with no other endpoints. Where Pods cannot tell in which namespaces these are,
// for want of the right to list them or because it is not the first address of a Pod, all slices are read.
func (s *seeker) seek(ctx context.Context, addr netip.Addr) ([]*zone.Slice, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, seekPatience, errStalled)
	defer cancel()
	s.read = 0
	if !s.isFirst(addr) || time.Since(s.denied) < podsAgain {
		return s.slices(ctx, source{labels: notHeadless}, addr)
	}
	namespaces, err := s.namespaces(ctx, addr)
	switch {
	case hasCode(err, http.StatusForbidden):
		s.denied = time.Now()
		return s.slices(ctx, source{labels: notHeadless}, addr)
	case errors.Is(err, errManyNamespaces):
		return s.slices(ctx, source{labels: notHeadless}, addr)
	case err != nil:
		return nil, err
	}
	var found []*zone.Slice
	for _, namespace := range namespaces {
		within, err := s.slices(ctx, source{namespace: namespace, labels: notHeadless}, addr)
		if err != nil {
			return nil, err
		}
		found = append(found, within...)
	}
	if len(found) > 0 {
		return found, nil
	}
	return s.slices(ctx, source{labels: byOthers}, addr)
}

// namespaces returns where there are Pods that have addr for their first address: one as a rule, and several where Pods
// use the network of a host.
func (s *seeker) namespaces(ctx context.Context, addr netip.Addr) (all []string, err error) {
	of := source{kind: kubewire.Pods, fields: "status.podIP=" + addr.String() + "," + running}
	seen := make(map[string]bool)
	err = s.list(ctx, of, func(o kubewire.Object) error {
		switch {
		case seen[o.Key.Namespace]:
		case len(all) == maxNamespaces:
			return errManyNamespaces
		default:
			seen[o.Key.Namespace] = true
			all = append(all, o.Key.Namespace)
		}
		return nil
	})
	return all, err
}

// slices returns what of a source of EndpointSlices has addr.
func (s *seeker) slices(ctx context.Context, of source, addr netip.Addr) (found []*zone.Slice, err error) {
	of.kind = kubewire.EndpointSlices
	err = s.list(ctx, of, func(o kubewire.Object) error {
		s.read++
		if slice, ok := o.Value.(*zone.Slice); ok {
			if at := endpointsAt(slice, addr); at != nil {
				found = append(found, at)
			}
		}
		return nil
	})
	return found, err
}

// list reads a source's objects, from the server's cache.
func (s *seeker) list(ctx context.Context, of source, each func(kubewire.Object) error) error {
	query := of.query()
	query.Set("resourceVersion", "0")
	answer, err := s.api.get(ctx, "list", of, query)
	if err != nil {
		return err
	}
	defer answer.close()
	_, err = kubewire.NewDecoder(of.kind).List(answer, answer.format, each)
	return err
}

// endpointsAt returns the slice with its endpoints at addr alone; nil when it has none.
func endpointsAt(slice *zone.Slice, addr netip.Addr) *zone.Slice {
	at := &zone.Slice{Key: slice.Key, Service: slice.Service}
	for _, e := range slice.Endpoints {
		if e.Addr == addr {
			at.Endpoints = append(at.Endpoints, e)
		}
	}
	if at.Endpoints == nil {
		return nil
	}
	return at
}

// kubernetesService is the one that every cluster has.
var kubernetesService = zone.Key{Namespace: "default", Name: "kubernetes"}

// isFirst reports whether an address may be the first of a Pod. Of two address families the cluster's first is that of
// the Service kubernetes, and of its Pods too.
func (w *Watcher) isFirst(addr netip.Addr) bool {
	latest := w.latest.Load()
	if latest == nil {
		return true
	}
	kubernetes := latest.Service(kubernetesService)
	return kubernetes == nil || len(kubernetes.ClusterIPs) == 0 || kubernetes.ClusterIPs[0].Is4() == addr.Is4()
}
