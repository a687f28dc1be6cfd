package control

import (
	"fmt"
	"strings"
	"time"
)

// Cluster describes how names in the cluster domain are answered.
type Cluster struct {
	Domain       string    `json:"domain"`
	ReverseZones []string  `json:"reverseZones"`
	Servers      []string  `json:"servers"`            // forwarding targets; if empty without Resolver, the zone answers SERVFAIL
	Source       string    `json:"source"`             // where the domain and the servers were configured
	Resolver     *Resolver `json:"resolver,omitempty"` // built-in resolver; nil if the Kubernetes API is not watched
}

// Resolver is the state of the built-in cluster resolver and its watches on the Kubernetes API.
type Resolver struct {
	Phase         string    `json:"phase"` // a value of cluster.Phase
	Since         time.Time `json:"since"` // start of the phase
	Profile       string    `json:"profile"`
	Kubeconfig    string    `json:"kubeconfig"`
	Server        string    `json:"server"` // empty until the kubeconfig has been read
	Error         string    `json:"error,omitempty"`
	MissingRights []string  `json:"missingRights"`
	FromDisk      time.Time `json:"fromDisk,omitzero"` // when the snapshot in use was written; zero if the state is from the API
	Services      int       `json:"services"`
	Endpoints     int       `json:"endpoints"`
	Namespaces    int       `json:"namespaces"`
	Pods          int       `json:"pods"`
	Imports       int       `json:"imports,omitempty"` // ServiceImports
	Events        uint64    `json:"events"`
	Lists         uint64    `json:"lists"`
	Lost          uint64    `json:"lost"`
	Rewinds       uint64    `json:"rewinds"`
	Dropped       uint64    `json:"dropped"`
	Autopath      Autopath  `json:"autopath"`
}

// Autopath is the state of the server-side walk through pods' search lists.
type Autopath struct {
	On       bool   `json:"on"`
	Why      string `json:"why,omitempty"` // reason for being off
	Answered uint64 `json:"answered"`      // queries
	Saved    uint64 `json:"saved"`         // queries that the clients did not have to send
}

// zones returns the cluster domain and its reverse zones.
func (c Cluster) zones() []string { return append([]string{c.Domain}, c.ReverseZones...) }

// clusterText describes how cluster names are answered and the state of the servers.
func (s Status) clusterText() string {
	c := s.Cluster
	if c.Domain == "" {
		return "NOT known"
	}
	forwarded := ""
	for _, route := range s.Routes {
		if route.Domain == c.Domain {
			if forwarded = route.servers(s.Now); !route.Local {
				forwarded = "via " + forwarded
			}
		}
	}
	text := c.Domain + " " + forwarded
	switch {
	case c.Resolver != nil:
		text = c.Domain + " " + c.Resolver.text(s.Now, forwarded)
	case forwarded == "":
		text = c.Domain + " SERVFAIL: no cluster DNS server is known"
	}
	if len(c.ReverseZones) > 0 {
		text += "\nwith " + strings.Join(c.ReverseZones, ", ")
	}
	return text + from(c.Source)
}

// text describes the source of answers for cluster names. forwarded names the servers that are
// queried while the resolver has no data or stale data. It is empty if there are none.
func (r *Resolver) text(now time.Time, forwarded string) string {
	var text string
	counts := number(r.Services, "service", "services") + ", " + number(r.Endpoints, "endpoint", "endpoints") + ", " +
		number(r.Namespaces, "namespace", "namespaces")
	if r.Imports > 0 {
		counts += ", " + number(r.Imports, "ServiceImport", "ServiceImports")
	}
	switch {
	case !r.FromDisk.IsZero():
		text = fmt.Sprintf("STALE: %s, as of %s ago", counts, age(now.Sub(r.FromDisk)))
	case r.Services+r.Namespaces > 0:
		text = fmt.Sprintf("from the Kubernetes API: %s", counts)
	case forwarded != "":
		text = forwarded
	default:
		text = "SERVFAIL: the Kubernetes API has not been read"
	}
	text += fmt.Sprintf("\n%s for %s", r.Phase, age(now.Sub(r.Since)))
	if r.Server != "" {
		text += " " + r.Server
	}
	if r.Error != "" {
		text += ": " + r.Error
	}
	text += "\n" + r.Profile + " profile, autopath " + r.Autopath.text()
	return text
}

func (a Autopath) text() string {
	if !a.On {
		return "off: " + a.Why
	}
	return fmt.Sprintf("on, %d queries saved", a.Saved)
}
