package daemon

import (
	"os"
	"reflect"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/dbusapi"
	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/upstream"
)

// sourceOfCapture returns the source of the captured servers. It is not NetworkManager any more if
// only a weaker source names them now.
func sourceOfCapture(captured hostdns.Capture, now upstream.Selection) nameserver.Source {
	return max(captured.Origin.Source(), now.Origin.Source())
}

// lostClaims returns the claims of the host's other sources of servers.
func lostClaims(now upstream.Selection) []nameserver.Claim {
	var claims []nameserver.Claim
	for _, candidate := range now.Lost {
		claims = append(claims, candidate.Claim())
	}
	return claims
}

// newPolicy collects the inputs and builds the Policy. kubeconfig is used if the configuration
// names none. It may be empty.
func (f *follower) newPolicy(seen *view.Host, config nodeconfig.Config, files dnsmasqconf.Config, kubeconfig string) *policy.Policy {
	captured := hostdns.Captured(seen.State.Upstreams, seen.State.Record)
	if captured.Set.IsEmpty() {
		// The hook has not run yet or may not write. Use the upstreams that it would capture.
		selection := seen.Plan.Selection
		captured = hostdns.Capture{Set: selection.Set, Origin: selection.Origin, From: strings.TrimSpace(string(selection.Origin) + " " + selection.Detail)}
	}
	if captured.Set.IsEmpty() {
		captured = f.lastCapture // law 2 also applies here: the files may be missing or unreadable
	}
	f.lastCapture = captured
	f.lastNet = steady(f.lastNet, seen.State.Net)
	f.lastDNS = steadyDNS(f.lastDNS, f.clusterDNS())
	recursive, problem := f.recursive(config)
	var problems []string
	if problem != "" {
		problems = append(problems, problem)
	}
	if path := f.goneKubeconfig(); path != "" && path == f.credentials(config, kubeconfig).Use {
		problems = append(problems, "the kubeconfig "+path+" is gone; node-dns watches the Kubernetes API with its last content")
	}
	hostname, _ := os.Hostname() // "" if the host has no name
	var ownDNS *policy.FromCluster
	if config.Resolver.FromCluster {
		ownDNS = f.ownDNS.Load()
	}
	var before *policy.LocalData
	if old := f.policy(); old != nil && old.Hostname == policy.NameOf(hostname) && reflect.DeepEqual(old.Dnsmasq, files) {
		before = old.Known
	}
	return f.leaveToOther(policy.New(policy.Inputs{
		OwnDNS:      ownDNS,
		Known:       before,
		Kubeconfig:  kubeconfig,
		Credentials: f.credentials(config, kubeconfig),
		Hostname:    hostname,
		NodeName:    f.config.NodeName,
		HostSearch:  f.hostSearch(config),
		Listen:      f.config.Listen,
		Upstreams:   f.config.Upstreams,
		Root:        f.config.Root,
		Config:      config,
		Net:         f.lastNet,
		Record:      seen.State.Record.Data,
		Captured:    captured.Set,
		From:        sourceOfCapture(captured, seen.Plan.Selection),
		Origin:      captured.From,
		Outdone:     lostClaims(seen.Plan.Selection),
		Looping:     f.loops.Looping(),
		MaxFiles:    f.config.Files,
		Recursive:   recursive,
		Bus:         ofBus(f.wantedBus(config)),
		Dnsmasq:     files,
		ResolvFiles: f.resolvFiles(files),
		Problems:    problems,

		KnowsCluster: f.lastDNS.isKnown,
		DNSService:   f.lastDNS.service,
		DNSNamespace: f.lastDNS.namespace,
		DNSPods:      f.lastDNS.pods,
	}))
}

// steady returns the kernel's network state, corrected so that it does not stop the node's DNS. A
// look without any addresses has failed, for lack of file descriptors, and is ignored. When the
// default route disappears, the node IP stays as long as it is a local address. dnsmasq keeps its
// socket in that case too.
func steady(before, now netstate.State) netstate.State {
	if len(now.Addrs) == 0 {
		return before
	}
	if node := before.NodeIP(); !now.NodeIP().IsValid() && node.IsValid() && now.IsLocal(node) {
		now.Default4, now.Default6 = before.Default4, before.Default6
		if !now.NodeIP().IsValid() { // the node IP was the only address and is no longer usable
			now.Default4 = &netstate.DefaultRoute{Source: node}
		}
	}
	return now
}

func ofBus(set dbusapi.State) policy.Bus {
	return policy.Bus{Rules: set.Rules, RulesBy: set.RulesBy.String(), Options: set.Options}
}

// wantedBus returns the settings made over D-Bus, as long as the configuration allows them.
func (f *follower) wantedBus(config nodeconfig.Config) dbusapi.State {
	state := *f.busState.Load()
	if config.DBus == nodeconfig.DBusDnsmasq || state.Same(dbusapi.State{}) {
		return state
	}
	f.log.Info("dropped the settings made over D-Bus", "dbus", string(config.DBus), "servers", journal.Few(ruleWords(state.Rules), " "))
	f.keepBus(dbusapi.State{})
	return dbusapi.State{}
}

func ruleWords(rules []dnsmasqconf.Rule) []string {
	words := []string{}
	for _, rule := range rules {
		words = append(words, rule.String())
	}
	return words
}
