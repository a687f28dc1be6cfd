package view

import (
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/policy"
)

func (v *View) clusterStatus(s *policy.Policy) control.Cluster {
	c := control.Cluster{
		Domain: s.Config.ClusterDomain.String(), Source: s.ClusterSource,
		ReverseZones: []string{}, Servers: control.Texts(s.ClusterDNS),
	}
	for _, zone := range s.Apexes {
		if zone != s.Config.ClusterDomain {
			c.ReverseZones = append(c.ReverseZones, zone.String())
		}
	}
	if watcher := v.Watcher.Load(); watcher != nil {
		c.Resolver = resolverStatus(s, watcher.State())
		c.Resolver.Autopath = v.autopathStatus(s)
	}
	return c
}

func resolverStatus(s *policy.Policy, state cluster.State) *control.Resolver {
	return &control.Resolver{
		Phase: state.Phase.String(), Since: state.Since, Profile: string(s.Config.ClusterProfile()),
		Kubeconfig: state.Kubeconfig, Server: state.Server, Error: state.LastError, MissingRights: control.Texts(state.Missing), FromDisk: state.FromDisk,
		Services: state.Counts.Services, Endpoints: state.Counts.Endpoints, Namespaces: state.Counts.Namespaces, Pods: state.Counts.Pods, Imports: state.Counts.Imports,
		Events: state.Events, Lists: state.Lists, Lost: state.Lost, Rewinds: state.Rewinds, Dropped: state.Dropped,
	}
}

func (v *View) autopathStatus(s *policy.Policy) control.Autopath {
	why := v.NoSearch(s)
	if why == "" && v.resolver.Known() == nil {
		why = "the Kubernetes API has not been read"
	}
	stats := v.resolver.Walked()
	return control.Autopath{On: why == "", Why: why, Answered: stats.Answered, Saved: stats.Saved}
}

// NoSearch explains why search lists are not walked although the cluster is known. It is empty if
// they are walked. Without the right to watch pods, previously known pods are not used, because
// their addresses may belong to other pods by now.
func (v *View) NoSearch(s *policy.Policy) string {
	if !s.API.Features.NodePods {
		return "disabled by autopath in node-dns.yaml"
	}
	return v.podsDenied()
}

// podsDenied returns which right to watch pods is missing, or "".
func (v *View) podsDenied() string {
	watcher := v.Watcher.Load()
	if watcher == nil {
		return ""
	}
	missing := watcher.State().Missing
	mayNot := func(right cluster.Right) bool { return right.Resource == "pods" }
	if i := slices.IndexFunc(missing, mayNot); i >= 0 {
		return "the Kubernetes API denies the right to " + missing[i].String()
	}
	return ""
}

// clusterProblems returns problems with the watch that an admin should know about.
func (v *View) clusterProblems() []string {
	watcher := v.Watcher.Load()
	if watcher == nil {
		return nil
	}
	var problems []string
	state := watcher.State()
	switch state.Phase {
	case cluster.NoKubeconfig, cluster.Unreadable, cluster.Forbidden, cluster.Stale:
		problems = append(problems, "the Kubernetes API is not watched ("+state.Phase.String()+"): "+state.LastError)
	case cluster.Connecting, cluster.Syncing:
		if state.LastError != "" {
			problems = append(problems, "the Kubernetes API has not been read yet: "+state.LastError)
		}
	}
	if state.Dropped > 0 {
		problems = append(problems, "the cluster has objects above a limit, so some of its names are not answered; the last one is "+state.LastDrop)
	}
	var denied []string
	for _, right := range state.Missing {
		// Without pods, the search lists of this node's pods are not walked. The autopath line
		// shows that, so it is not a problem.
		verified := v.policy().API.Features.AllPods && right.Resource == "pods"
		if state.Phase == cluster.Forbidden || verified || right.Resource == "serviceimports" {
			denied = append(denied, right.String())
		}
	}
	if len(denied) > 0 {
		problems = append(problems, "rights are missing (contrib/cluster-role.yaml has them): "+strings.Join(denied, ", "))
	}
	return problems
}
