package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/upstream"
)

// CheckConfig reads the configuration like the daemon. If the configuration uses the Kubernetes
// API, CheckConfig also asks the API server which rights are missing, which takes a few seconds at
// most.
func CheckConfig(ctx context.Context, root string, paths nodeconfig.Paths) control.ConfigCheck {
	config, err := nodeconfig.Load(paths)
	files, filesErr := dnsmasqconf.Load(dnsmasqconf.DefaultPaths(root))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	net, netErr := netstate.Read(ctx)
	check := control.ConfigCheck{APIVersion: control.APIVersion, Kind: "ConfigCheck", MissingRights: []string{}}
	check.Faults = configFaults(errors.Join(err, filesErr))
	check.Files = configFiles(config, files.Files, check.Faults)
	check.Notes = append(control.Texts(files.Aside), files.Costs()...)
	if netErr == nil {
		check.Node = configNode(hostdns.Place(config, net, nil), policy.Listeners(config, files, net))
		handover := hostdns.NewPaths(root).Upstreams
		check.Notes = append(check.Notes, named{config, files, net, handover, hostdns.ReadFile(root, handover).Data}.looping()...)
	}
	if config.FactsFile != "" {
		check.Notes = append(check.Notes, config.FactsFile+": settings from the cluster's file, which this user may not read")
	}
	if config.FactsWanted != "" {
		check.Notes = append(check.Notes, config.FactsWanted+": origin-dns-dispatcher apply, as root, reads it")
	}
	addRights(ctx, &check, root, config)
	return check
}

// CheckFiles reads the configuration files like the daemon. It sends no queries.
func CheckFiles(root string, paths nodeconfig.Paths) control.ConfigFaults {
	_, err := nodeconfig.Load(paths)
	_, filesErr := dnsmasqconf.Load(dnsmasqconf.DefaultPaths(root))
	return control.ConfigFaults{APIVersion: control.APIVersion, Kind: "ConfigFaults", Faults: configFaults(errors.Join(err, filesErr))}
}

// configFaults returns the errors in configuration files, and one line per file that cannot be
// read.
func configFaults(err error) []control.ConfigFault {
	all := []control.ConfigFault{}
	if err == nil {
		return all
	}
	known := map[string]*nodeconfig.Fault{}
	for _, fault := range nodeconfig.Faults(err) {
		known[fault.Error()] = fault
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		f := control.ConfigFault{What: line}
		if fault, ok := known[line]; ok {
			f.File, f.Line, f.Column = fault.File, fault.Line, fault.Column
		}
		all = append(all, f)
	}
	return all
}

// configFiles returns the files that were read and their settings.
func configFiles(config nodeconfig.Config, dnsmasq []string, faults []control.ConfigFault) []control.ConfigFile {
	all := []control.ConfigFile{}
	for _, path := range slices.Concat(config.Files, dnsmasq) {
		file := control.ConfigFile{Path: path, OK: !slices.ContainsFunc(faults, func(f control.ConfigFault) bool { return f.File == path })}
		for _, s := range config.Settings() {
			if s.Source.File == path {
				file.Settings = append(file.Settings, control.ConfigSetting{Key: s.Key, Line: s.Source.Line, Value: s.Value, By: s.By})
			}
		}
		all = append(all, file)
	}
	return all
}

// configNode converts a placement and its listeners. /etc/resolv.conf cannot contain a port.
func configNode(place nodeconfig.Placement, listeners []netip.AddrPort) control.ConfigNode {
	node := control.ConfigNode{Listen: []string{}, Problems: place.Problems}
	for _, at := range listeners {
		if at.Port() == nameserver.Port && at.Addr() == place.Nameserver {
			node.Nameserver = at.Addr().String()
		}
		isAll := place.All && at.Port() == nameserver.Port && !at.Addr().IsLoopback()
		if !isAll || slices.Contains(place.Listen, at) {
			node.Listen = append(node.Listen, at.String())
		}
	}
	if place.All {
		node.Listen = append(node.Listen, "every address of this node except loopback")
	}
	return node
}

// addRights adds the rights that the configuration needs and the API server denies. If the API
// server does not answer, it adds only a note, because the server may be down or not installed yet.
func addRights(ctx context.Context, check *control.ConfigCheck, root string, config nodeconfig.Config) {
	rights, err := CheckRights(ctx, root, config)
	check.Kubeconfig = rights.Kubeconfig
	check.MissingRights = append(check.MissingRights, rights.Missing...)
	switch {
	case err != nil:
		check.Notes = append(check.Notes, fmt.Sprintf("%s: rights not checked: %v", rights.Kubeconfig, err))
	case rights.Kubeconfig != "" && len(rights.Missing) == 0:
		check.Notes = append(check.Notes, rights.Kubeconfig+": the Kubernetes API grants all required rights")
	}
}

// named holds every setting that names a nameserver in a file.
type named struct {
	config   nodeconfig.Config
	dnsmasq  dnsmasqconf.Config
	net      netstate.State
	path     string // path of the hook's file, as shown
	handover []byte // content of that file
}

// looping returns a message for each configured nameserver that is this node. The daemon ignores
// such nameservers.
func (n named) looping() []string {
	listen := policy.Listeners(n.config, n.dnsmasq, n.net)
	isOurs := func(server nameserver.Server) bool { return server.Plain() && slices.Contains(listen, server.Addr) }
	var found []string
	add := func(where, what string) { found = append(found, where+": "+what+" is this node; ignored (would loop)") }
	keys := func(key string, servers []nameserver.Server) {
		for _, server := range servers {
			if source := n.config.Sources[key]; isOurs(server) {
				add(fmt.Sprintf("%s:%d", source.File, source.Line), server.String())
			}
		}
	}
	keys("upstreams", n.config.Upstreams)
	keys("dnsNameservers", n.config.DNSNameservers)
	for _, route := range n.config.Routes {
		keys("routes", route.Servers)
	}
	for _, server := range n.dnsmasq.Servers {
		if server.Kind == dnsmasqconf.Ask && isOurs(server.Server) {
			add(server.Place.String(), "server="+server.Rule.String())
		}
	}
	number := 0
	for line := range bytes.Lines(n.handover) {
		number++
		set, _ := upstream.ParseDnsmasqConf(line) // an invalid line names no servers
		for _, server := range set.Servers {
			if isOurs(server) {
				add(fmt.Sprintf("%s:%d", n.path, number), "server="+server.Dnsmasq())
			}
		}
	}
	return found
}

// Rights are the access rights to the Kubernetes API that the configuration needs.
type Rights struct {
	Kubeconfig string   // empty if the API is not watched
	Missing    []string // rights that the API server denies, in the form of `kubectl auth can-i` arguments
}

// CheckRights asks the API server which rights a daemon below root lacks. It returns an error if
// the server cannot be reached. Root uses only the credentials that nodeconfig.RootsKubeconfig
// permits.
func CheckRights(ctx context.Context, root string, config nodeconfig.Config) (Rights, error) {
	paths := nodeconfig.DefaultPaths(root)
	usual := paths.Kubeconfig
	if _, err := os.Stat(usual); errors.Is(err, os.ErrNotExist) {
		usual = ""
	}
	hostname, _ := os.Hostname() // empty if the host has no name
	api := policy.NewAPI(config, usual, hostname)
	if api == (policy.API{}) {
		return Rights{}, nil
	}
	rights := Rights{Kubeconfig: nodeconfig.FindKubeconfig(paths, api.Original).Use}
	contents, err := nodeconfig.RootsKubeconfig(paths, rights.Kubeconfig)
	if err != nil {
		return rights, err
	}
	missing, err := cluster.MissingRights(ctx, cluster.Config{
		Kubeconfig: rights.Kubeconfig, Contents: contents, Features: api.Features, NodeName: api.Node,
	})
	rights.Missing = control.Texts(missing)
	return rights, err
}
