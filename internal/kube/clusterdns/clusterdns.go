// Package clusterdns reads the configuration of a cluster's own DNS, for forwarding and hosts
// entries: the ConfigMaps of CoreDNS and kube-dns, and OpenShift's DNS operator.
//
// Package cluster gets these objects from the API, and the daemon decides whether a Route is in
// force. This package opens no file, sends no query and logs nothing. It follows a setting only if
// the result has the same effect on a node, and lists every other setting in Settings.Unfollowed.
package clusterdns

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Unset is the Host.TTL of an entry without a TTL.
const Unset = -1

// The kinds of objects that Read knows.
const (
	kindConfigMap = "ConfigMap"
	kindDNS       = "DNS"
)

// The keys and the name by which Read recognizes ConfigMaps.
const (
	corefileKey  = "Corefile"
	stubKey      = "stubDomains"
	upstreamKey  = "upstreamNameservers"
	customObject = "coredns-custom"
)

// Limits of a Settings and of its sources.
const (
	maxRoutes     = 1_000
	maxHosts      = 10_000
	maxUnfollowed = 200
	maxServers    = 15      // of a route; CoreDNS and OpenShift reject more
	maxValue      = 1 << 20 // bytes of a value of a ConfigMap, and of a spec; the API's limit for a ConfigMap
	maxShown      = 100     // characters of untrusted text in a message
)

// Object is an API object with the fields that are read here.
type Object struct {
	Kind      string            `json:"kind,omitempty"`      // "ConfigMap" or "DNS" (operator.openshift.io/v1)
	Namespace string            `json:"namespace,omitempty"` // "" for a DNS
	Name      string            `json:"name,omitempty"`
	Data      map[string]string `json:"data,omitempty"` // of a ConfigMap
	Spec      json.RawMessage   `json:"spec,omitempty"` // of a DNS
}

// Settings is the configuration of a cluster's DNS. It is a value: treat its slices as read-only.
type Settings struct {
	// Routes has at most one route for each domain.
	Routes []Route
	Hosts  []Host
	// Unfollowed has at most 201 elements. The last one of 201 counts those that were left out.
	Unfollowed []Unfollowed
	// Malformed are the objects that cannot be read completely, each once. They must not replace
	// their earlier versions.
	Malformed []Malformed
}

// A Route defines where the names of a domain are resolved.
type Route struct {
	Domain dnsname.Name // the root: all names without a narrower route
	// Local means that a name of the domain exists only if Settings.Hosts has it.
	Local bool
	// Pods means that only the cluster's DNS pods can resolve names of the domain.
	Pods bool
	// Barred means that nothing resolves names of the domain, which is in a domain of the DNS pods:
	// they would take this node for the client, on which their answers depend.
	Barred  bool
	Servers []nameserver.Server // at least one, unless Local, Pods or Barred is set
	Where   string
}

// A Host gives names an address.
type Host struct {
	Addr      netip.Addr
	Names     []dnsname.Name // at least one
	TTL       int            // seconds, or Unset
	NoReverse bool           // Addr has no PTR records
	Where     string
}

// Unfollowed is a setting that node-dns does not support. Both strings are for display.
type Unfollowed struct {
	Where string // the object, the key and the line: "ConfigMap kube-system/coredns Corefile:12"
	Text  string // the reason
}

// Malformed is an object with a syntax error, or one that exceeds a bound. Unfollowed lists its
// faults too.
type Malformed struct {
	Kind, Namespace, Name string
	Where, Text           string // the first fault
}

// Read returns what the objects configure. Routes within a domain of cluster, which are the
// cluster's own, are left out. The order of the objects does not matter. Objects that configure no
// DNS are ignored. Of several ConfigMaps with a Corefile, Read uses only the first one by namespace
// and name. If there is one, Read ignores the settings of kube-dns. mayLeave allows routes with
// Pods for settings that node-dns does not support; without it they are in Unfollowed.
func Read(objects []Object, cluster []dnsname.Name, mayLeave bool) Settings {
	r := &reader{cluster: cluster, mayLeave: mayLeave, index: map[dnsname.Name]int{}, kept: map[dnsname.Name]string{}, selective: map[dnsname.Name]bool{}}
	sorted := slices.SortedFunc(slices.Values(objects), compareObjects)
	customs := map[string]*custom{}
	for _, o := range sorted {
		if o.Kind == kindConfigMap && o.Name == customObject && customs[o.Namespace] == nil {
			customs[o.Namespace] = newCustom(o)
		}
	}
	corefile := slices.IndexFunc(sorted, hasCorefile)
	for i, o := range sorted {
		switch {
		case o.Kind == kindDNS:
			r.readOperator(o)
		case o.Kind != kindConfigMap || o.Name == customObject:
			continue
		case i == corefile:
			r.readCorefile(o, customs[o.Namespace])
		case hasCorefile(o):
			r.report(o.at(corefileKey), "node-dns follows only one Corefile, the one of %s", sorted[corefile].title())
		case corefile >= 0:
			r.reportLeftOver(o)
		default:
			r.readKubeDNS(o)
		}
	}
	r.finish()
	for _, namespace := range slices.Sorted(maps.Keys(customs)) {
		customs[namespace].reportUnused(r)
	}
	if r.more > 0 {
		r.settings.Unfollowed = append(r.settings.Unfollowed, Unfollowed{
			Where: "cluster DNS", Text: fmt.Sprintf("%d more settings are not followed; only the first %d are listed", r.more, maxUnfollowed),
		})
	}
	return r.settings
}

func compareObjects(a, b Object) int {
	if c := cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)); c != 0 {
		return c
	}
	// Two objects have the same name only in a damaged file. Sorting by content keeps the result
	// deterministic.
	keys := slices.Sorted(maps.Keys(a.Data))
	if c := slices.Compare(keys, slices.Sorted(maps.Keys(b.Data))); c != 0 {
		return c
	}
	for _, key := range keys {
		if c := cmp.Compare(a.Data[key], b.Data[key]); c != 0 {
			return c
		}
	}
	return cmp.Compare(string(a.Spec), string(b.Spec))
}

// hasCorefile reports whether o configures CoreDNS.
func hasCorefile(o Object) bool {
	_, ok := o.Data[corefileKey]
	return ok && o.Kind == kindConfigMap && o.Name != customObject
}

// reader collects the Settings of all objects.
type reader struct {
	cluster  []dnsname.Name
	mayLeave bool // names may be left to the DNS pods
	settings Settings
	more     int // number of reports over maxUnfollowed
	routes   []Route
	index    map[dnsname.Name]int // of routes, by domain
	// kept are domains whose names the cluster's DNS does not send to the servers of the next wider
	// route, each with the place of that setting. If such a domain has no route of its own, the
	// wider route would leak its names.
	kept      map[dnsname.Name]string
	selective map[dnsname.Name]bool // those of kept whose answers depend on the client
	// unreadable is the Where of the first setting for unknown domains. A route for the root would
	// leak their names. It is empty if there is no such setting.
	unreadable string
}

// report adds a setting that is not followed.
func (r *reader) report(where, format string, args ...any) {
	if len(r.settings.Unfollowed) >= maxUnfollowed {
		r.more++
		return
	}
	r.settings.Unfollowed = append(r.settings.Unfollowed, Unfollowed{Where: where, Text: fmt.Sprintf(format, args...)})
}

// isCluster reports whether name lies in a zone of the cluster.
func (r *reader) isCluster(name dnsname.Name) bool {
	return slices.ContainsFunc(r.cluster, name.Within)
}

// reportMalformed reports a fault of an object that cannot be read whole.
func (r *reader) reportMalformed(o Object, where, format string, args ...any) {
	r.report(where, format, args...)
	isSame := func(m Malformed) bool { return m.Kind == o.Kind && m.Namespace == o.Namespace && m.Name == o.Name }
	if !slices.ContainsFunc(r.settings.Malformed, isSame) {
		r.settings.Malformed = append(r.settings.Malformed, Malformed{
			Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Where: where, Text: fmt.Sprintf(format, args...),
		})
	}
}

// add adds a route. The first route for a domain wins.
func (r *reader) add(route Route) {
	if r.isCluster(route.Domain) {
		r.report(route.Where, "%s is in the cluster's zone", route.Domain.Relative())
		return
	}
	if first, ok := r.index[route.Domain]; ok {
		r.report(route.Where, "%s also forwards %s", r.routes[first].Where, route.Domain.Relative())
		return
	}
	if len(r.routes) >= maxRoutes {
		r.report(route.Where, "there are more than %d routes", maxRoutes)
		r.keep(route.Domain, route.Where)
		return
	}
	r.index[route.Domain] = len(r.routes)
	r.routes = append(r.routes, route)
}

// keep records that the servers of wider routes must not get the names of domain.
func (r *reader) keep(domain dnsname.Name, where string) {
	if _, ok := r.kept[domain]; !ok && !domain.IsRoot() && !r.isCluster(domain) {
		r.kept[domain] = where
	}
}

// keepUnknown records that the servers of the root must not get the names of unknown domains,
// because the setting at where cannot be read.
func (r *reader) keepUnknown(where string) { r.unreadable = cmp.Or(r.unreadable, where) }

// finish accepts the routes that leak no names.
func (r *reader) finish() {
	leaks := map[int]dnsname.Name{}
	for _, domain := range slices.SortedFunc(maps.Keys(r.kept), compareNames) {
		for zone := domain; !zone.IsZero(); zone = zone.Parent() {
			i, ok := r.index[zone]
			if !ok {
				continue
			}
			if r.routes[i].Pods && r.selective[domain] && zone != domain {
				r.add(Route{Domain: domain, Barred: true, Where: r.kept[domain]})
			}
			if zone == domain || r.routes[i].Local || r.routes[i].Pods {
				break
			}
			if _, known := leaks[i]; !known {
				leaks[i] = domain
			}
		}
	}
	for i, route := range r.routes {
		domain, isLeak := leaks[i]
		switch {
		case route.Domain.IsRoot() && len(route.Servers) > 0 && r.unreadable != "":
			r.report(route.Where, "its servers would receive names of %s, which cannot be read", r.unreadable)
		case isLeak:
			r.report(route.Where, "its servers would receive names of %s, which %s keeps from them", domain.Relative(), r.kept[domain])
		default:
			r.settings.Routes = append(r.settings.Routes, route)
		}
	}
}

func compareNames(a, b dnsname.Name) int { return cmp.Compare(a.String(), b.String()) }

// quote quotes untrusted text, cut to maxShown characters.
func quote(text string) string {
	characters := 0
	for i := range text {
		if characters == maxShown {
			return fmt.Sprintf("%q…", text[:i])
		}
		characters++
	}
	return fmt.Sprintf("%q", text)
}

// title formats the name of an object or a key. The API allows only safe characters, but a damaged
// file may contain others.
func title(text string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	if text == "" || len(text) > 253 || strings.Trim(text, safe) != "" {
		return quote(text)
	}
	return text
}

// at returns the Where of a key of a ConfigMap.
func (o Object) at(key string) string {
	return fmt.Sprintf("%s %s", o.title(), title(key))
}

// title returns the name of a ConfigMap for messages.
func (o Object) title() string {
	return fmt.Sprintf("%s %s/%s", kindConfigMap, title(o.Namespace), title(o.Name))
}
