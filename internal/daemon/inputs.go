package daemon

import (
	"os"
	"reflect"

	"github.com/node-dns/node-dns/internal/admin/dbusapi"
	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
)

// newPolicy collects the inputs and builds the Policy. kubeconfig is used if the configuration
// names none. It may be empty.
func (f *follower) newPolicy(seen *view.Host, config nodeconfig.Config, files dnsmasqconf.Config, kubeconfig string) *policy.Policy {
	f.lastCapture = hostdns.InUse(seen.State, seen.Plan, f.lastCapture)
	f.lastNet = netstate.Steady(f.lastNet, seen.State.Net)
	f.lastDNS = f.dnsService().Steady(f.lastDNS)
	recursive, problem := f.paths.host.Recursive(config)
	var resolvFiles []nameserver.Server
	if !files.Has("no-resolv") {
		resolvFiles = f.paths.host.ResolvFiles(files.ResolvFile)
	}
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
		HostSearch:  f.paths.host.KubeletSearch(config),
		Listen:      f.config.Listen,
		Upstreams:   f.config.Upstreams,
		Root:        f.config.Root,
		Config:      config,
		Net:         f.lastNet,
		Record:      seen.State.Record.Data,
		Captured:    f.lastCapture.Set,
		From:        f.lastCapture.Source(seen.Plan.Selection),
		Origin:      f.lastCapture.From,
		Outdone:     seen.Plan.Selection.LostClaims(),
		Looping:     f.loops.Looping(),
		MaxFiles:    f.config.Files,
		Recursive:   recursive,
		Bus:         ofBus(f.wantedBus(config)),
		Dnsmasq:     files,
		ResolvFiles: resolvFiles,
		Problems:    problems,
		DNSService:  f.lastDNS,
	}))
}

func ofBus(set dbusapi.State) policy.Bus {
	return policy.Bus{Rules: set.Rules, RulesBy: set.RulesBy.String(), Options: set.Options}
}
