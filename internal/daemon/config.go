package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// next is the configuration to serve by from now on: what the files say, so that the daemon and the hook, which reads them
// each time, are never of two minds about the cluster domain. The running one stays where the files have faults (law 8),
// and until the privileged half has read what may not be read here. A change counts when two looks agree on it, and again
// is true until then: who writes a file in its place first empties it, and an empty one is valid.
func (a *agreed) next(running nodeconfig.Config, seen *view.Host) (config nodeconfig.Config, again bool) {
	before := a.config
	a.config = seen.Config
	switch {
	case (seen.ConfigErr != nil || seen.Config.FactsWanted != "") && !running.ClusterDomain.IsZero():
		return running, false
	case reflect.DeepEqual(seen.Config, running), reflect.DeepEqual(seen.Config, before):
		return seen.Config, false
	}
	return running, true
}

// wanted are the files that the privileged half must write: what it should have read for us, and what is not as it should
// be. At the start, when it has read for us, it is asked to look again: where a directory is closed nobody can see whether
// the cluster's file, or a certificate, has changed since. So it is when we begin to answer, where nobody but root can read
// /etc/resolv.conf: at boot NetworkManager's last event may have come before.
func (f *follower) wanted(seen *view.Host, found nodeconfig.Kubeconfig, reason string) []string {
	files := seen.Pending(f.view.Listening())
	if f.awaitsWayBack(seen, time.Now()) {
		files = append(files, seen.State.Paths.WayBack)
	}
	before := f.answers
	f.answers = seen.IsAnswered(f.view.Listening())
	if f.answers && !before && errors.Is(seen.State.ResolvConf.Err, fs.ErrPermission) {
		files = append(files, seen.State.Paths.ResolvConf)
	}
	config := seen.State.Config
	if config.FactsWanted != "" || reason == startReason && config.FactsFile != "" {
		files = append(files, seen.State.Paths.Facts)
	}
	if found.Wanted != "" || reason == startReason && found.Use != found.Original {
		files = append(files, seen.State.Paths.Kubeconfig)
	}
	return files
}

// wayBackPatience is for how long the stamp that systemd's run of the hook leaves is asked for, where it is missing. A run that was killed is
// made up for at once; what keeps systemd from running the hook lasts.
const wayBackPatience = 5 * time.Minute

// awaitsWayBack reports whether that stamp is missing, and may come yet.
func (f *follower) awaitsWayBack(seen *view.Host, now time.Time) bool {
	if seen.Plan.Hold != hostdns.NoWayBack || f.config.Invocation == "" || !seen.IsAnswered(f.view.Listening()) {
		return false
	}
	if f.wayBackTill.IsZero() {
		f.wayBackTill = now.Add(wayBackPatience)
	}
	return now.Before(f.wayBackTill)
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
func (a *agreed) nextDnsmasq(running dnsmasqconf.Config, seen *view.Host) (config dnsmasqconf.Config, again bool) {
	before := a.dnsmasq
	a.dnsmasq = seen.Dnsmasq
	switch {
	case seen.DnsmasqErr != nil:
		return running, false
	case reflect.DeepEqual(seen.Dnsmasq, running), reflect.DeepEqual(seen.Dnsmasq, before):
		return seen.Dnsmasq, false
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
