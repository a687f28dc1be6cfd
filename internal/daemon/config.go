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

// next returns the configuration to serve from now on. Normally it is the configuration in the
// files, so that the daemon agrees on the cluster domain with the hook, which reads them each time.
// The running one stays if the files have faults (law 8), and until the privileged half has read
// files that the daemon may not read. A change takes effect when two looks agree on it; until then
// again is true. A program that rewrites a file in place first empties it, and an empty file is
// valid.
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

// wanted returns the files that the privileged half must write: copies of files that the daemon may
// not read, and files that are not as they should be. At the start it also asks for a refresh of
// existing copies, because the daemon cannot see whether a file in a closed directory has changed.
// It does the same for an unreadable /etc/resolv.conf when the daemon begins to answer: at boot
// NetworkManager's last event may have come earlier. In a pod there is no privileged half.
func (f *follower) wanted(seen *view.Host, found nodeconfig.Kubeconfig, reason string) []string {
	if seen.InPod {
		return nil
	}
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

// wayBackPatience bounds how long the daemon asks for the missing stamp of systemd's run of the
// hook. A run that was killed is repeated at once. Whatever keeps systemd from running the hook
// usually persists.
const wayBackPatience = 5 * time.Minute

// awaitsWayBack reports whether that stamp is missing and is still asked for.
func (f *follower) awaitsWayBack(seen *view.Host, now time.Time) bool {
	if seen.Plan.Hold != hostdns.NoWayBack || f.config.Invocation == "" || !seen.IsAnswered(f.view.Listening()) {
		return false
	}
	if f.wayBackTill.IsZero() {
		f.wayBackTill = now.Add(wayBackPatience)
	}
	return now.Before(f.wayBackTill)
}

// startReason is the reason of the first look that may request writes.
const startReason = "start"

// hostSearch returns the host's search list. The kubelet appends it to the cluster's search list in
// pods.
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

// recursive returns the nameservers of dnsRecursiveResolvConf. It ignores a file that node-dns
// writes, because those nameservers were captured. problem is the reason if there are none, or ""
// if that is normal.
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
		why = path + " lists no nameserver"
	default:
		return servers, ""
	}
	return nil, fmt.Sprintf("ignoring %s: %s", config.Where("dnsRecursiveResolvConf"), why)
}

// nextDnsmasq is next for dnsmasq's files: the running configuration stays if the files have
// faults, and a change takes effect when two looks agree on it.
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

// resolvFiles returns the nameservers of resolv-file. It ignores the option with no-resolv, and
// files that node-dns wrote.
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
