package daemon

import (
	"os"
	"reflect"
	"strings"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/precedence"
	"github.com/node-dns/node-dns/internal/upstream"
)

// sourceOfCapture is who says what was captured: not NetworkManager any more, where the host says it with less now.
func sourceOfCapture(captured hostdns.Capture, now upstream.Selection) precedence.Source {
	return max(captured.Origin.Source(), now.Origin.Source())
}

// outdone are what the host says of itself beside what it goes by.
func outdone(now upstream.Selection) []precedence.Claim {
	var claims []precedence.Claim
	for _, candidate := range now.Lost {
		claims = append(claims, candidate.Claim())
	}
	return claims
}

// newPolicy gathers the inputs and decides. kubeconfig is used where the configuration names none; "": there is none.
func (d *Daemon) newPolicy(view *hostView, config nodeconfig.Config, files dnsmasqconf.Config, kubeconfig string) *policy.Policy {
	captured := hostdns.Captured(view.state.Upstreams, view.state.Record)
	if captured.Set.IsEmpty() {
		// The hook has not run yet (or may not write): what it would capture serves as well.
		selection := view.plan.Selection
		captured = hostdns.Capture{Set: selection.Set, Origin: selection.Origin, From: strings.TrimSpace(string(selection.Origin) + " " + selection.Detail)}
	}
	if captured.Set.IsEmpty() {
		captured = d.lastCapture // law 2 holds for what is served too: the files may be gone, or could not be read
	}
	d.lastCapture = captured
	d.lastNet = steady(d.lastNet, view.state.Net)
	recursive, problem := d.recursive(config)
	var problems []string
	if problem != "" {
		problems = append(problems, problem)
	}
	if path := d.goneKubeconfig(); path != "" && path == d.credentials(config, kubeconfig).Use {
		problems = append(problems, "the kubeconfig "+path+" is gone: the Kubernetes API is watched with what was read from it")
	}
	hostname, _ := os.Hostname() // a host without a name has an empty one
	var ownDNS *policy.FromCluster
	if config.Resolver.FromCluster {
		ownDNS = d.ownDNS.Load()
	}
	var before *policy.LocalData
	if old := d.policy(); old != nil && old.Hostname == policy.NameOf(hostname) && reflect.DeepEqual(old.Dnsmasq, files) {
		before = old.Known
	}
	return policy.New(policy.Inputs{
		OwnDNS:      ownDNS,
		Known:       before,
		Kubeconfig:  kubeconfig,
		Credentials: d.credentials(config, kubeconfig),
		Hostname:    hostname,
		HostSearch:  d.hostSearch(config),
		Listen:      d.config.Listen,
		Upstreams:   d.config.Upstreams,
		Root:        d.config.Root,
		Config:      config,
		Net:         d.lastNet,
		Record:      view.state.Record.Data,
		Captured:    captured.Set,
		From:        sourceOfCapture(captured, view.plan.Selection),
		Origin:      captured.From,
		Outdone:     outdone(view.plan.Selection),
		Looping:     d.loops.looping(),
		MaxFiles:    d.config.Files,
		Recursive:   recursive,
		Bus:         ofBus(d.wantedBus(config)),
		Dnsmasq:     files,
		ResolvFiles: d.resolvFiles(files),
		Problems:    problems,
	})
}

// steady is what the kernel says now, but for what must not end a node's DNS: a look that failed (no addresses at all: no
// file descriptor was left) stands for nothing, and a default route that went away leaves the node IP where it was for
// as long as the address is still local. dnsmasq keeps its socket then too.
func steady(before, now netstate.State) netstate.State {
	if len(now.Addrs) == 0 {
		return before
	}
	if node := before.NodeIP(); !now.NodeIP().IsValid() && node.IsValid() && now.IsLocal(node) {
		now.Default4, now.Default6 = before.Default4, before.Default6
		if !now.NodeIP().IsValid() { // it was the only address, and is not any more
			now.Default4 = &netstate.DefaultRoute{Source: node}
		}
	}
	return now
}
