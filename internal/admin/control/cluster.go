package control

import (
	"fmt"
	"strings"
	"time"
)

// Cluster says who answers for the cluster domain.
type Cluster struct {
	Domain       string    `json:"domain"`
	ReverseZones []string  `json:"reverseZones"`
	Servers      []string  `json:"servers"`            // what it is forwarded to; empty without a resolver: the zone answers SERVFAIL
	Source       string    `json:"source"`             // where the domain and the servers were read
	Resolver     *Resolver `json:"resolver,omitempty"` // the built-in one; nil: the Kubernetes API is not watched
}

// Resolver is the built-in cluster resolver, and how the Kubernetes API is watched for it.
type Resolver struct {
	Phase         string    `json:"phase"` // of cluster.Phase
	Since         time.Time `json:"since"` // of the phase
	Profile       string    `json:"profile"`
	Kubeconfig    string    `json:"kubeconfig"`
	Server        string    `json:"server"` // "" before the kubeconfig has been read
	Error         string    `json:"error,omitempty"`
	MissingRights []string  `json:"missingRights"`
	FromDisk      time.Time `json:"fromDisk,omitzero"` // when the state that is served was written; zero: it is from the API
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

// Autopath says whether search lists are walked for pods.
type Autopath struct {
	On       bool   `json:"on"`
	Why      string `json:"why,omitempty"` // why it is off
	Answered uint64 `json:"answered"`      // queries
	Saved    uint64 `json:"saved"`         // queries that did not have to be sent
}

// zones are the cluster domain and its reverse zones.
func (c Cluster) zones() []string { return append([]string{c.Domain}, c.ReverseZones...) }

// clusterText says who answers for the cluster's names, and how they are.
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

// text says what cluster names are answered from. forwarded is who is asked while that is nothing or stale; "": nobody.
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
