package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/sys/dbusconn"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// Answer is a question that was answered before the first step.
type Answer struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Rcode string `json:"rcode"` // NOERROR or NXDOMAIN
}

const (
	// askPatience is the timeout for one answer.
	askPatience = 2 * time.Second
	// checkPatience is how long node-dns may take until it answers the questions that were answered
	// before.
	checkPatience = 10 * time.Second
	// preparePatience is how long upstreams and the cluster's API may take. Reading 10,000 services
	// takes a second.
	preparePatience = 10 * time.Second
)

// samples returns questions that most nodes can answer: names of the cluster, the site and the
// Internet.
func samples() []dns.Question {
	var all []dns.Question
	add := func(name string, qtype uint16) {
		if _, ok := dns.IsDomainName(name); ok {
			all = append(all, dns.Question{Name: dns.Fqdn(name), Qtype: qtype, Qclass: dns.ClassINET})
		}
	}
	text, _ := os.ReadFile("/etc/resolv.conf") // without the file there is no search list
	for _, domain := range resolvconf.Parse(text).Search() {
		add(domain, dns.TypeSOA)
		add("kubernetes.default.svc."+domain, dns.TypeA)
	}
	if host, err := os.Hostname(); err == nil && strings.Contains(host, ".") {
		add(host, dns.TypeA)
	}
	add(".", dns.TypeNS)
	return all
}

// askBefore queries the current nameservers at the addresses to be taken over, and returns the
// questions that they answered.
func askBefore(ctx context.Context, p Plan) []Answer {
	var all []Answer
	for _, at := range p.taken() {
		for _, q := range samples() {
			m, err := ask(ctx, "udp", at, q)
			if err != nil || m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError {
				continue
			}
			a := Answer{Name: q.Name, Type: dns.TypeToString[q.Qtype], Rcode: dns.RcodeToString[m.Rcode]}
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}

// taken returns the addresses that are taken over.
func (p Plan) taken() []netip.AddrPort {
	var all []netip.AddrPort
	for _, step := range p.Steps {
		all = append(all, step.At...)
	}
	return all
}

func ask(ctx context.Context, network string, at netip.AddrPort, q dns.Question) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	m := &dns.Msg{Question: []dns.Question{q}}
	m.Id, m.RecursionDesired = dns.Id(), true
	m.SetEdns0(1232, false)
	client := dns.Client{Net: network}
	response, _, err := client.ExchangeContext(ctx, m, at.String())
	return response, err
}

// check verifies over both transports that node-dns answers, and that it answers the questions that
// were answered before. It retries, because the first queries to an upstream are the slowest.
func (a Applier) check(ctx context.Context, j *Journal) error {
	status, err := fetchStatus(ctx)
	if err != nil {
		return err
	}
	if err := awaitIntercepted(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	return retry(limited, func() error { return checkAll(limited, status, j.Before) })
}

// retry calls try until it succeeds or ctx ends, and returns the last useful error. If ctx ends
// during a try, its error is only a timeout, so the error of the previous try counts.
func retry(ctx context.Context, try func() error) (wrong error) {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if wrong == nil || ctx.Err() == nil {
			wrong = err
		}
		if !supervise.Sleep(ctx, 200*time.Millisecond) {
			return wrong
		}
	}
}

func checkAll(ctx context.Context, status control.Status, before []Answer) error {
	var errs []error
	for _, l := range status.Listeners {
		at, err := netip.ParseAddrPort(l.Address)
		if err != nil || at.Addr().IsLoopback() {
			continue // pods do not use loopback addresses
		}
		for _, network := range []string{"udp", "tcp"} {
			errs = append(errs, checkAt(ctx, network, at, before))
		}
	}
	text, err := os.ReadFile("/etc/resolv.conf")
	if err == nil && status.ResolvConf.Ours { // otherwise it names systemd-resolved or the admin's choice
		for _, addr := range resolvconf.Parse(text).Nameservers() {
			errs = append(errs, checkAt(ctx, "udp", netip.AddrPortFrom(addr, portDNS), before))
		}
	}
	return errors.Join(append(errs, err)...)
}

// checkAt sends all questions to one nameserver.
func checkAt(ctx context.Context, network string, at netip.AddrPort, before []Answer) error {
	who := dns.Question{Name: "version.bind.", Qtype: dns.TypeTXT, Qclass: dns.ClassCHAOS}
	m, err := ask(ctx, network, at, who)
	if err != nil {
		return fmt.Errorf("%v over %s does not answer: %w", at, network, err)
	}
	if len(m.Answer) == 0 || !strings.Contains(m.Answer[0].String(), "node-dns") {
		return fmt.Errorf("%v over %s is not node-dns", at, network)
	}
	for _, b := range before {
		m, err := ask(ctx, network, at, dns.Question{Name: b.Name, Qtype: dns.StringToType[b.Type], Qclass: dns.ClassINET})
		if err != nil {
			return fmt.Errorf("%v over %s does not answer %s %s: %w", at, network, b.Name, b.Type, err)
		}
		// A name that did not exist may exist now, such as a cluster name that the old nameserver
		// did not know.
		if rcode := dns.RcodeToString[m.Rcode]; rcode != b.Rcode && m.Rcode != dns.RcodeSuccess {
			return fmt.Errorf("%v over %s answers %s to %s %s; before the migration the answer was %s", at, network, rcode, b.Name, b.Type, b.Rcode)
		}
	}
	return nil
}

// fetchStatus retries after a missed deadline. On an emulated machine one answer took 2 s, and
// migrate undid everything.
func fetchStatus(ctx context.Context) (status control.Status, err error) {
	err = dbusconn.Retry(ctx, askPatience, 0, func(ctx context.Context) error {
		status, err = control.FetchStatus(ctx, control.SocketPath(root))
		return err
	})
	return status, err
}

// awaitPrepared waits until only port 53 is missing: an upstream answers, and a watched API has
// been read.
func awaitPrepared(ctx context.Context) error {
	return await(ctx, "node-dns to be ready except for port 53", preparePatience, func() (bool, error) {
		status, err := fetchStatus(ctx)
		if err != nil {
			return false, err
		}
		if why := unprepared(status); why != "" {
			return false, errors.New(why)
		}
		err = askUpstreams(ctx, status)
		return err == nil, err
	})
}

// unprepared returns what is missing in addition to port 53, or "".
func unprepared(status control.Status) string {
	root := slices.IndexFunc(status.Routes, func(r control.Route) bool { return r.Domain == "." })
	switch r := status.Cluster.Resolver; {
	case root < 0 || len(status.Routes[root].Servers) == 0:
		return "it has no upstream nameserver"
	case status.Cluster.Domain == "":
		return "the cluster domain is unknown"
	case r != nil && r.Services+r.Namespaces == 0 && len(status.Cluster.Servers) == 0:
		return "the Kubernetes API has not been read: " + r.Error
	}
	return ""
}

// askUpstreams returns an error if none of node-dns's upstream nameservers answers. node-dns itself
// queries them only once it listens.
func askUpstreams(ctx context.Context, status control.Status) error {
	var servers []nameserver.Server
	for _, route := range status.Routes {
		if route.Domain != "." {
			continue
		}
		for _, s := range route.Servers {
			server, err := nameserver.Parse(s.Address)
			if err != nil {
				return fmt.Errorf("the upstream nameserver %q: %w", s.Address, err)
			}
			servers = append(servers, server)
		}
	}
	return askServers(ctx, servers)
}

// Rehearsal holds the results of checks before the first step. Each of these problems once made
// --apply undo everything after 15 s.
type Rehearsal struct {
	Kubeconfig string   // kubeconfig that node-dns would use; empty if it would not use the Kubernetes API
	APIErr     error    // error of a request to the Kubernetes API
	Missing    []string // rights that the API denies
	Upstreams  error    // reason why no upstream nameserver answers
}

// Rehearse queries the upstream nameservers that node-dns would use. kubeconfig, missing and apiErr
// are the result of a request to the Kubernetes API.
func (h Host) Rehearse(ctx context.Context, kubeconfig string, missing []string, apiErr error) Rehearsal {
	r := Rehearsal{Kubeconfig: kubeconfig, APIErr: apiErr, Missing: missing}
	if servers := h.upstreamServers(); len(servers) > 0 { // otherwise Plan.Hold reports it
		r.Upstreams = askServers(ctx, servers)
	}
	return r
}

// upstreamServers returns the servers that node-dns will use.
func (h Host) upstreamServers() []nameserver.Server {
	if len(h.State.Config.Upstreams) > 0 {
		return h.State.Config.Upstreams
	}
	return h.Plan.Selection.Set.Servers
}

// obstacles returns the reasons why a migration would fail. The cluster's own nameservers are
// enough without the API, except for interception.
func (h Host) obstacles() []string {
	var why []string
	if r := h.Rehearsal; r.APIErr != nil && (len(h.State.Placement().ClusterDNS) == 0 || !h.State.Config.Intercept.IsNone()) {
		reason := r.Kubeconfig + ": " + oneLine(r.APIErr)
		if errors.Is(r.APIErr, fs.ErrNotExist) {
			reason = r.Kubeconfig + " does not exist"
		}
		fix := "set kubeconfig: or clusterDNS: in /etc/node-dns/node-dns.yaml"
		if !h.State.Config.Intercept.IsNone() {
			fix = "set kubeconfig: in /etc/node-dns/node-dns.yaml"
		}
		why = append(why, "node-dns could not answer the cluster's names: "+reason+": "+fix)
	}
	if err := h.Rehearsal.Upstreams; err != nil {
		why = append(why, oneLine(err))
	}
	return why
}

// askServers returns an error if no nameserver answers. A server that is not queried in plain text
// counts as one that answers.
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
