package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// follower decides which configuration is served by after a look. The zero value is ready. It belongs to one goroutine.
type follower struct {
	seen        nodeconfig.Config // at the last look
	seenDnsmasq dnsmasqconf.Config
}

// next is the configuration to serve by from now on: what the files say, so that the daemon and the hook, which reads them
// each time, are never of two minds about the cluster domain. The running one stays where the files have faults (law 8),
// and until the privileged half has read what may not be read here. A change counts when two looks agree on it, and again
// is true until then: who writes a file in its place first empties it, and an empty one is valid.
func (f *follower) next(running nodeconfig.Config, view *hostView) (config nodeconfig.Config, again bool) {
	before := f.seen
	f.seen = view.config
	switch {
	case (view.configErr != nil || view.config.FactsWanted != "") && !running.ClusterDomain.IsZero():
		return running, false
	case reflect.DeepEqual(view.config, running), reflect.DeepEqual(view.config, before):
		return view.config, false
	}
	return running, true
}

// wanted are the files that the privileged half must write: what it should have read for us, and what is not as it should
// be. At the start, when it has read for us, it is asked to look again: where a directory is closed nobody can see whether
// the cluster's file, or a certificate, has changed since. So it is when we begin to answer, where nobody but root can read
// /etc/resolv.conf: at boot NetworkManager's last event may have come before.
func (d *Daemon) wanted(view *hostView, found nodeconfig.Kubeconfig, reason string) []string {
	files := view.pending(d.listening())
	if d.awaitsWayBack(view, time.Now()) {
		files = append(files, view.state.Paths.WayBack)
	}
	before := d.answers
	d.answers = view.isAnswered(d.listening())
	if d.answers && !before && errors.Is(view.state.ResolvConf.Err, fs.ErrPermission) {
		files = append(files, view.state.Paths.ResolvConf)
	}
	config := view.state.Config
	if config.FactsWanted != "" || reason == startReason && config.FactsFile != "" {
		files = append(files, view.state.Paths.Facts)
	}
	if found.Wanted != "" || reason == startReason && found.Use != found.Original {
		files = append(files, view.state.Paths.Kubeconfig)
	}
	return files
}

// wayBackPatience is for how long the stamp that systemd's run of the hook leaves is asked for, where it is missing. A run that was killed is
// made up for at once; what keeps systemd from running the hook lasts.
const wayBackPatience = 5 * time.Minute

// awaitsWayBack reports whether that stamp is missing, and may come yet.
func (d *Daemon) awaitsWayBack(view *hostView, now time.Time) bool {
	if view.plan.Hold != hostdns.NoWayBack || d.config.Invocation == "" || !view.isAnswered(d.listening()) {
		return false
	}
	if d.wayBackTill.IsZero() {
		d.wayBackTill = now.Add(wayBackPatience)
	}
	return now.Before(d.wayBackTill)
}

// startReason is the reason of the first look that may ask for something.
const startReason = "start"

// hostSearch is the search list that the kubelet hands on to pods after the cluster's own.
func (d *Daemon) hostSearch(config nodeconfig.Config) []dnsname.Name {
	path := config.KubeletResolvConf
	if path == "" {
		path = d.paths.host.ResolvConf // the kubelet's default
	}
	var list []dnsname.Name
	for _, domain := range resolvconf.Parse(hostdns.ReadFile(d.paths.host.Root, path).Data).SearchLine() {
		if name, err := dnsname.Parse(domain); err == nil && !name.IsRoot() {
			list = append(list, name)
		}
	}
	return list
}

// recursive are the nameservers of dnsRecursiveResolvConf, unless that is a file that we write ourselves: what that named
// or names has been captured. problem says why there are none, "" when that is as it should be.
func (d *Daemon) recursive(config nodeconfig.Config) (servers []nameserver.Server, problem string) {
	path := config.DNSRecursiveResolvConf
	here, usual := d.paths.host, hostdns.NewPaths("")
	if slices.Contains([]string{"", here.NodeResolvConf, usual.NodeResolvConf, here.ResolvConf, usual.ResolvConf}, path) {
		return nil, ""
	}
	file := hostdns.ReadFile(d.paths.host.Root, path)
	if hostdns.IsOurs(file.Data) {
		return nil, ""
	}
	for _, addr := range resolvconf.Parse(file.Data).Nameservers() {
		if server := nameserver.FromAddr(addr); !addr.IsUnspecified() {
			servers = append(servers, server)
		}
	}
	why := ""
	switch {
	case file.Err != nil:
		why = file.Err.Error()
	case !file.Exists:
		why = path + " does not exist"
	case len(servers) == 0:
		why = path + " names no nameserver"
	default:
		return servers, ""
	}
	return nil, fmt.Sprintf("%s is left out: %s", config.Where("dnsRecursiveResolvConf"), why)
}

// nextDnsmasq is what next is for dnsmasq's files: the running one stays where they have faults, and a change counts when two
// looks agree on it.
func (f *follower) nextDnsmasq(running dnsmasqconf.Config, view *hostView) (config dnsmasqconf.Config, again bool) {
	before := f.seenDnsmasq
	f.seenDnsmasq = view.dnsmasq
	switch {
	case view.dnsmasqErr != nil:
		return running, false
	case reflect.DeepEqual(view.dnsmasq, running), reflect.DeepEqual(view.dnsmasq, before):
		return view.dnsmasq, false
	}
	return running, true
}

// resolvFiles are the nameservers of resolv-file. no-resolv has none of them; one that we wrote says what we know already.
func (d *Daemon) resolvFiles(files dnsmasqconf.Config) (servers []nameserver.Server) {
	if files.Has("no-resolv") {
		return nil
	}
	for _, name := range files.ResolvFile {
		file := hostdns.ReadFile(d.paths.host.Root, name)
		if name == d.paths.host.ResolvConf || hostdns.IsOurs(file.Data) {
			continue
		}
		for _, addr := range resolvconf.Parse(file.Data).Nameservers() {
			if !addr.IsUnspecified() {
				servers = append(servers, nameserver.FromAddr(addr))
			}
		}
	}
	return servers
}
