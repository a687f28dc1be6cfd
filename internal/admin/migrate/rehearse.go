package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Rehearsal is what can be tried out before the first step: each of it once made --apply go all the way back after 15 s.
type Rehearsal struct {
	Kubeconfig string // what node-dns would ask the Kubernetes API with; "": it would not
	APIErr     error  // why that fails
	Upstreams  error  // why no upstream nameserver answers
}

// Rehearse asks the upstream nameservers that node-dns would have. kubeconfig and apiErr are what became of asking the Kubernetes API.
func (h Host) Rehearse(ctx context.Context, kubeconfig string, apiErr error) Rehearsal {
	servers := h.State.Config.Upstreams
	if len(servers) == 0 {
		servers = h.Plan.Selection.Set.Servers
	}
	r := Rehearsal{Kubeconfig: kubeconfig, APIErr: apiErr}
	if len(servers) > 0 { // else Plan.Hold says so
		r.Upstreams = askServers(ctx, servers)
	}
	return r
}

// obstacles are the reasons why a migration would go back. Without the API the cluster's own nameservers do.
func (h Host) obstacles() []string {
	var why []string
	if r := h.Rehearsal; r.APIErr != nil && len(h.State.Placement().ClusterDNS) == 0 {
		reason := r.Kubeconfig + ": " + oneLine(r.APIErr)
		if errors.Is(r.APIErr, fs.ErrNotExist) {
			reason = r.Kubeconfig + " does not exist"
		}
		why = append(why, "node-dns could not answer the cluster's names: "+reason+": set kubeconfig: or clusterDNS: in /etc/node-dns/node-dns.yaml")
	}
	if err := h.Rehearsal.Upstreams; err != nil {
		why = append(why, oneLine(err))
	}
	return why
}

// askServers is an error where no nameserver answers. One that is not asked in plain text counts as one that does.
func askServers(ctx context.Context, servers []nameserver.Server) error {
	var errs []error
	for _, server := range servers {
		var err error
		if server.Plain() {
			_, err = ask(ctx, "udp", server.Addr, dns.Question{Name: ".", Qtype: dns.TypeNS, Qclass: dns.ClassINET})
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("no upstream nameserver answers: %w", errors.Join(errs...))
}
