// Package clusterdns reads what a cluster's own DNS is configured to forward and to answer: the
// ConfigMaps of CoreDNS and kube-dns, and OpenShift's DNS operator.
//
// It is apart from package cluster, which gets these objects from the API, and from the daemon,
// which decides whether a Route is in force. It opens no file, sends no query and logs nothing. It
// follows a setting only if the result has the same effect on a node, and lists every other setting
// in Settings.Unfollowed.
package clusterdns

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dnsname"
	"github.com/node-dns/node-dns/internal/nameserver"
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

// The bounds of a Settings and of what it is read from.
const (
	maxRoutes     = 1_000
	maxHosts      = 10_000
	maxUnfollowed = 200
	maxServers    = 15      // of a route; CoreDNS and OpenShift refuse more
	maxValue      = 1 << 20 // bytes of a value of a ConfigMap, and of a spec; the API's limit for a ConfigMap
	maxShown      = 100     // characters of a foreign text in a message
)

// Object is an API object as far as it is read here.
type Object struct {
	Kind      string            `json:"kind,omitempty"`      // "ConfigMap" or "DNS" (operator.openshift.io/v1)
	Namespace string            `json:"namespace,omitempty"` // "" for a DNS
	Name      string            `json:"name,omitempty"`
	Data      map[string]string `json:"data,omitempty"` // of a ConfigMap
	Spec      json.RawMessage   `json:"spec,omitempty"` // of a DNS
}

// Settings is the configuration of a cluster's DNS. It is a value: treat its slices as read-only.
type Settings struct {
	// Routes has at most one route for each domain of an object.
	Routes []Route
	Hosts  []Host
	// Unfollowed has at most 201 elements. The last one of 201 counts those that were left out.
	Unfollowed []Unfollowed
}

// A Route says where the names of a domain are resolved.
type Route struct {
	Domain dnsname.Name // the root: all names without a narrower route
	// Local means that a name of the domain exists only if Settings.Hosts has it.
	Local   bool
	Servers []nameserver.Server // at least one, unless Local is set
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

// Unfollowed is a setting that node-dns does not follow. Both texts are for people.
type Unfollowed struct {
	Where string // the object, the key and the line: "ConfigMap kube-system/coredns Corefile:12"
	Text  string // the reason
}

// Read returns what the objects configure. Routes within a domain of cluster, which are the
// cluster's own, are left out. The order of the objects does not matter. Objects that configure no
// DNS are ignored.
func Read(objects []Object, cluster []dnsname.Name) Settings {
	r := &reader{cluster: cluster}
	sorted := slices.SortedFunc(slices.Values(objects), compareObjects)
	customs := map[string]*custom{}
	for _, o := range sorted {
		if o.Kind == kindConfigMap && o.Name == customObject && customs[o.Namespace] == nil {
			customs[o.Namespace] = newCustom(o)
		}
	}
	for _, o := range sorted {
		s := scope{reader: r, index: map[dnsname.Name]int{}, kept: map[dnsname.Name]string{}}
		switch {
		case o.Kind == kindDNS:
			s.readOperator(o)
		case o.Kind != kindConfigMap || o.Name == customObject:
			continue
		case hasKey(o, corefileKey):
			s.readCorefile(o, customs[o.Namespace])
		default:
			s.readKubeDNS(o)
		}
		s.finish()
	}
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
	// Only a damaged file has two objects of one name. Their contents decide, so that the result
	// stays the same.
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

func hasKey(o Object, key string) bool {
	_, ok := o.Data[key]
	return ok
}

// reader collects the Settings of all objects.
type reader struct {
	cluster  []dnsname.Name
	settings Settings
	more     int // reports beyond maxUnfollowed
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

// scope collects the routes of one object.
type scope struct {
	*reader
	routes []Route
	index  map[dnsname.Name]int // of routes, by domain
	// kept are domains whose names the cluster's DNS sends somewhere else than the next wider route
	// says, and where it says so. If such a domain has no route of its own, the wider route would
	// leak its names.
	kept map[dnsname.Name]string
}

// add adds a route. The first route for a domain wins.
func (s *scope) add(r Route) {
	if s.isCluster(r.Domain) {
		s.report(r.Where, "%s lies in the cluster's zone", r.Domain.Relative())
		return
	}
	if first, ok := s.index[r.Domain]; ok {
		s.report(r.Where, "%s also forwards %s", s.routes[first].Where, r.Domain.Relative())
		return
	}
	if len(s.settings.Routes)+len(s.routes) >= maxRoutes {
		s.report(r.Where, "there are more than %d routes", maxRoutes)
		s.keep(r.Domain, r.Where)
		return
	}
	s.index[r.Domain] = len(s.routes)
	s.routes = append(s.routes, r)
}

// keep says that the servers of wider routes must not get the names of domain.
func (s *scope) keep(domain dnsname.Name, where string) {
	if _, ok := s.kept[domain]; !ok && !domain.IsRoot() && !s.isCluster(domain) {
		s.kept[domain] = where
	}
}

// finish takes over the routes that leak no names.
func (s *scope) finish() {
	leaks := map[int]dnsname.Name{}
	for _, domain := range slices.SortedFunc(maps.Keys(s.kept), compareNames) {
		for zone := domain; !zone.IsZero(); zone = zone.Parent() {
			i, ok := s.index[zone]
			if !ok {
				continue
			}
			if zone == domain || s.routes[i].Local {
				break
			}
			if _, known := leaks[i]; !known {
				leaks[i] = domain
			}
		}
	}
	for i, r := range s.routes {
		if domain, ok := leaks[i]; ok {
			s.report(r.Where, "its servers would receive names of %s, which %s keeps from them", domain.Relative(), s.kept[domain])
			continue
		}
		s.settings.Routes = append(s.settings.Routes, r)
	}
}

func compareNames(a, b dnsname.Name) int { return cmp.Compare(a.String(), b.String()) }

// quote quotes a text from outside, cut to maxShown characters.
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

// title names an object or a key. The API allows safe characters only, but a damaged file may hold
// others.
func title(text string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	if text == "" || len(text) > 253 || strings.Trim(text, safe) != "" {
		return quote(text)
	}
	return text
}

// at is the Where of a key of a ConfigMap.
func (o Object) at(key string) string {
	return fmt.Sprintf("%s %s/%s %s", kindConfigMap, title(o.Namespace), title(o.Name), title(key))
}
