package doctor

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// renewal is how long before its expiry a client certificate should have been renewed. The kubelet
// renews its certificate when between a fifth and a tenth of the lifetime is left: a month of a
// year, or some hours of a day.
const renewal = 24 * time.Hour

// checkCluster checks whether cluster names can be resolved: the credentials, the API server, the
// daemon's watches, and the answers of the cluster's own nameservers. It does not report
// consequences of a failure that it reports.
func checkCluster(s Snapshot) []Finding {
	found := s.certificate()
	if !hasFailure(found) {
		found = append(found, s.apiServer()...)
	}
	if s.Status == nil || hasFailure(found) {
		return found
	}
	c := s.Status.Cluster
	switch r := c.Resolver; {
	case c.Domain == "":
		found = append(found, fail("the cluster domain is unknown: node-dns does not listen", "origin-dns-dispatcher apply, as root, reads the cluster's file; or set clusterDomain: in "+nodeDNSYAML))
	case r == nil && len(c.Servers) == 0:
		found = append(found, warn("names of "+c.Domain+" are answered SERVFAIL: the Kubernetes API is not watched, and no cluster DNS server is known",
			"set kubeconfig: or clusterDNS: in "+nodeDNSYAML+"; on a node without a cluster this is expected"))
	case r == nil:
		found = append(found, s.forwarded()...)
	case r.Phase == "synced":
		found = append(found, fine("names of %s are answered from the Kubernetes API: %s, %s", c.Domain, count(r.Services, "service"), count(r.Endpoints, "endpoint"))...)
	case s.API.Err == nil || r.Services+r.Namespaces > 0: // otherwise apiServer reports it
		found = append(found, s.unsynced()...)
	}
	return found
}

func hasFailure(found []Finding) bool {
	return slices.ContainsFunc(found, func(f Finding) bool { return f.Level == Fail })
}

// forwarded checks the answers of the nameservers to which cluster names are forwarded. Every
// cluster has a name for its API server.
func (s Snapshot) forwarded() []Finding {
	c := s.Status.Cluster
	servers := strings.Join(c.Servers, ", ")
	i := slices.IndexFunc(s.Names, func(n Name) bool { return n.Cluster })
	if i < 0 {
		return fine("queries for %s are forwarded to %s", c.Domain, servers)
	}
	switch n := s.Names[i]; n.result() {
	case "NOERROR":
		return fine("queries for %s are forwarded to %s, which resolves %s", c.Domain, servers, n.Name)
	case "NXDOMAIN", "NODATA":
		return []Finding{fail(fmt.Sprintf("%s, which gets queries for %s, is not the cluster's DNS: it answers that %s does not exist (%s)", servers, c.Domain, n.Name, n.result()),
			"set the address of the cluster's DNS Service in "+c.Source+": kubectl get service -A -l k8s-app=kube-dns shows it (OpenShift 4: kubectl -n openshift-dns get service dns-default); "+
				"if it is right, the cluster has another clusterDomain", n.lines()...)}
	default:
		if !slices.ContainsFunc(s.Upstreams, func(p Probe) bool { return slices.Contains(c.Servers, p.Server) && p.answers() }) {
			return nil // checkUpstreams reports it
		}
		return []Finding{fail(fmt.Sprintf("%s, which gets queries for %s, answers %s for %s", servers, c.Domain, n.result(), n.Name),
			"kubectl -n kube-system logs -l k8s-app=kube-dns shows why; the address is from "+c.Source, n.lines()...)}
	}
}

func (s Snapshot) unsynced() []Finding {
	c := s.Status.Cluster
	r := c.Resolver
	what := fmt.Sprintf("the watch on the Kubernetes API is not in sync: %s", r.Phase)
	if r.Error != "" {
		what += ": " + r.Error
	}
	details := deniedRights(r.MissingRights)
	fix := "check that this node can reach it"
	switch {
	case len(r.MissingRights) > 0:
		fix = bindRole
	case r.Kubeconfig != "":
		fix += ", and " + r.Kubeconfig
	}
	if r.Services+r.Namespaces > 0 || len(c.Servers) > 0 {
		return []Finding{warn(what+"; meanwhile names are answered from the last known state", fix, details...)}
	}
	return []Finding{fail(what+"; names of "+c.Domain+" are answered SERVFAIL", fix, details...)}
}

// certificate checks the validity period of the client certificate.
func (s Snapshot) certificate() []Finding {
	const fix = "the kubelet renews its own certificate: systemctl status kubelet; renew any other one in its kubeconfig"
	switch a := s.API; {
	case a.Kubeconfig == "":
		return nil
	case a.CertErr != nil && s.Host.Root:
		return []Finding{warn(firstLine(a.CertErr.Error()), "fix it and make it writable only by root; the daemon reloads it automatically")}
	case a.NotAfter.IsZero():
		return nil
	case s.Now.After(a.NotAfter):
		return []Finding{fail(fmt.Sprintf("the client certificate of %s expired at %s", a.Kubeconfig, date(a.NotAfter)), fix)}
	case s.Now.Before(a.NotBefore):
		return []Finding{fail(fmt.Sprintf("the client certificate of %s is not valid before %s, but this node's clock shows %s", a.Kubeconfig, date(a.NotBefore), date(s.Now)), "set the clock")}
	case a.NotAfter.Sub(s.Now) < renewal && a.NotAfter.Sub(a.NotBefore) > 4*renewal:
		return []Finding{warn(fmt.Sprintf("the client certificate of %s expires at %s", a.Kubeconfig, date(a.NotAfter)), fix)}
	}
	return fine("the client certificate of %s is valid until %s", s.API.Kubeconfig, date(s.API.NotAfter))
}

// apiServer checks the answers that the API server gave to this process.
func (s Snapshot) apiServer() []Finding {
	a := s.API
	var invalid x509.CertificateInvalidError
	switch {
	case a.Kubeconfig == "":
		return nil
	case a.Err == nil && len(a.Missing) == 0:
		return fine("the Kubernetes API answers (%s) and grants the required rights", a.Server)
	case a.Err == nil:
		return []Finding{warn("the Kubernetes API denies required rights", bindRole, deniedRights(a.Missing)...)}
	case errors.Is(a.Err, nodeconfig.ErrPlugin):
		return []Finding{warn("the Kubernetes API is not used: the kubeconfig's credentials come from a plugin (exec, auth-provider), which node-dns does not run",
			"give node-dns a kubeconfig with a token or a certificate of its own: kubeconfig: in /etc/node-dns/node-dns.yaml")}
	case a.CertErr != nil && errors.Is(a.Err, nodeconfig.ErrRefused): // certificate reports the reason
		return nil
	case errors.As(a.Err, &invalid) && invalid.Reason == x509.Expired && s.Now.Before(invalid.Cert.NotBefore):
		return []Finding{fail(fmt.Sprintf("the certificate of the Kubernetes API is not valid before %s, but this node's clock shows %s", date(invalid.Cert.NotBefore), date(s.Now)), "set the clock: systemctl status chronyd")}
	case errors.As(a.Err, &invalid) && invalid.Reason == x509.Expired:
		return []Finding{fail(fmt.Sprintf("the certificate of the Kubernetes API expired at %s, and this node's clock shows %s", date(invalid.Cert.NotAfter), date(s.Now)), "if the clock is wrong, set it; otherwise renew the control plane's certificate")}
	}
	what, fix := "this node cannot query the Kubernetes API: "+firstLine(a.Err.Error()), s.reachAPI()
	switch {
	case cluster.IsUnauthorized(a.Err):
		what = fmt.Sprintf("the Kubernetes API (%s) does not accept the credentials in %s (401)", a.Server, a.Kubeconfig)
		fix = fmt.Sprintf("replace it with a kubeconfig that has valid credentials; for a service account (docs/howto/cluster.md): kubectl -n kube-system create token node-dns --duration=8760h prints a new token for %s", a.Kubeconfig)
	case s.Status == nil:
		return []Finding{warn(what, fix)}
	}
	if r := s.Status.Cluster.Resolver; r != nil && (r.Phase == "synced" || r.Services+r.Namespaces > 0) {
		return []Finding{warn(what+"; meanwhile names of "+s.Status.Cluster.Domain+" are answered from the last known state", fix)}
	}
	return []Finding{fail(what+"; names of "+s.Status.Cluster.Domain+" are answered SERVFAIL", fix)}
}

// reachAPI returns advice for an unreachable API server.
func (s Snapshot) reachAPI() string {
	a := s.API
	fix := "check that the API server runs and that no firewall in between drops the connection: curl -k " + termtext.Quote(a.Server+"/healthz")
	if errors.Is(a.Err, unix.ECONNREFUSED) {
		fix = "start the API server: the host of " + a.Server + " is up but refuses the connection"
	}
	return fix + "; the address is from " + a.Kubeconfig
}

const bindRole = "kubectl apply -f contrib/cluster-role.yaml, then bind the role"

func deniedRights(rights []string) (details []string) {
	for _, right := range rights {
		details = append(details, "denied: "+right)
	}
	return details
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
