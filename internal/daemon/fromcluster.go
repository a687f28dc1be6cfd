package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/kube/clusterdns"
	"github.com/node-dns/node-dns/internal/localdata"
	"github.com/node-dns/node-dns/internal/precedence"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// fromCluster is the configuration of the cluster's own DNS, for the key of that name. Its Settings do not change.
type fromCluster struct {
	cluster.Settings

	mu    sync.Mutex           // guards what follows
	zones []dnsname.Name       // the cluster's
	said  *clusterdns.Settings // parsed for these zones; nil if it has not been parsed
}

// read parses the objects. It keeps the result until the cluster's zones change, because the daemon looks every few seconds.
func (f *fromCluster) read(zones []dnsname.Name) *clusterdns.Settings {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.said == nil || !slices.Equal(f.zones, zones) {
		said := clusterdns.Read(f.Objects, zones)
		f.zones, f.said = zones, &said
	}
	return f.said
}

// maxFromCluster bounds the file, in octets: five objects of the API, which have 1.5 MiB each at most, with their line ends escaped.
const maxFromCluster = 16 << 20

// keptSettings is what the file has.
type keptSettings struct {
	Cluster string              `json:"cluster"`
	Objects []clusterdns.Object `json:"objects"`
}

// loadFromCluster finds what the cluster's DNS was configured to do before the daemon was restarted: until the API answers, the names of a
// stub domain must not go to the site's nameservers.
func (d *Daemon) loadFromCluster() {
	kept, err := readKeptSettings(d.paths.fromCluster)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log.Warn("what the cluster configures of its DNS is not known before the API answers", "file", d.paths.fromCluster, "error", err)
	}
	kept.Objects = slices.DeleteFunc(kept.Objects, func(o clusterdns.Object) bool { return !cluster.IsSetting(o) })
	d.ownDNS.Store(&fromCluster{Settings: cluster.Settings{Objects: kept.Objects, Cluster: kept.Cluster}})
}

func readKeptSettings(path string) (kept keptSettings, err error) {
	switch info, err := os.Lstat(path); {
	case err != nil:
		return kept, err
	case !info.Mode().IsRegular():
		return kept, fmt.Errorf("%s: it is no file: %w", path, fs.ErrInvalid)
	case info.Size() > maxFromCluster:
		return kept, fmt.Errorf("%s: %d bytes: expected %d at most", path, info.Size(), maxFromCluster)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return kept, err
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		return keptSettings{}, fmt.Errorf("%s: %w", path, err)
	}
	return kept, nil
}

// knownSettings are what a new watch begins with. What failed to be watched before may not any more.
func (d *Daemon) knownSettings() cluster.Settings {
	now := d.ownDNS.Load()
	if len(now.Failed) > 0 {
		now = &fromCluster{Settings: cluster.Settings{Objects: now.Objects, Cluster: now.Cluster}}
		d.ownDNS.Store(now)
	}
	return now.Settings
}

// takeFromCluster applies new Settings and has them saved for the next start.
func (d *Daemon) takeFromCluster(settings cluster.Settings) {
	if !d.serving.Load().config.Resolver.FromCluster {
		return // any more
	}
	d.ownDNS.Store(&fromCluster{Settings: keepGood(d.ownDNS.Load().Objects, settings)})
	select {
	case d.ownDNSChanged <- struct{}{}:
	default:
	}
	d.hint("fromCluster")
}

// keepGood replaces an object with a syntax error by its version in before. CoreDNS and kube-dns also go on with the version that they have. Without that, a
// missing brace would send the names of all stub domains to the site's nameservers.
func keepGood(before []clusterdns.Object, now cluster.Settings) cluster.Settings {
	now.Objects, now.Failed = slices.Clone(now.Objects), slices.Clone(now.Failed)
	for _, bad := range clusterdns.Read(now.Objects, nil).Malformed {
		is := func(o clusterdns.Object) bool {
			return o.Kind == bad.Kind && o.Namespace == bad.Namespace && o.Name == bad.Name
		}
		fault := fmt.Errorf("%s: %s", bad.Where, bad.Text)
		if i := slices.IndexFunc(before, is); i >= 0 {
			now.Objects[slices.IndexFunc(now.Objects, is)] = before[i]
			fault = fmt.Errorf("%w: what it said before stays", fault)
		}
		now.Failed = append(now.Failed, fault)
	}
	return now
}

// keepFromCluster writes what is known of the cluster's DNS each time that this changes, until ctx ends. It is apart from the watching, which a slow
// disk does not hold up.
func (d *Daemon) keepFromCluster(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.ownDNSChanged:
		}
		if !d.serving.Load().config.Resolver.FromCluster {
			continue
		}
		now := d.ownDNS.Load()
		var data bytes.Buffer
		encoder := json.NewEncoder(&data)
		encoder.SetEscapeHTML(false)
		err := encoder.Encode(keptSettings{now.Cluster, now.Objects})
		if err == nil && data.Len() > maxFromCluster {
			err = fmt.Errorf("%d bytes: expected %d at most", data.Len(), maxFromCluster)
		}
		if err == nil {
			_, err = atomicfile.Writer{}.Write(d.paths.fromCluster, data.Bytes(), 0o600)
		}
		if err != nil {
			d.log.Warn("what the cluster configures of its DNS is not kept for the next start", "error", err)
		}
	}
}

// forgetFromCluster drops the objects and their file when fromCluster is turned off: they are not watched any more.
func (d *Daemon) forgetFromCluster() {
	d.ownDNS.Store(new(fromCluster))
	if err := os.Remove(d.paths.fromCluster); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log.Warn("what the cluster configures of its DNS is still kept", "error", err)
	}
}

// maxUnfollowed bounds the notes about what cannot be followed.
const maxUnfollowed = 20

// addOwn parses the configuration of the cluster's own DNS, and reports the parts that are not followed.
func (s *serving) addOwn(in inputs) {
	if in.ownDNS == nil {
		return
	}
	s.own = in.ownDNS.read(s.apexes)
	where := in.config.Where("fromCluster")
	for _, err := range in.ownDNS.Failed {
		s.problems = append(s.problems, fmt.Sprintf("%s: %v", where, err))
	}
	if s.api == (api{}) {
		s.problems = append(s.problems, where+": no Kubernetes API is watched (see kubeconfig)")
	}
	for i, u := range s.own.Unfollowed {
		if i == maxUnfollowed {
			s.note("%d more parts of what the cluster configures of its DNS are not followed", len(s.own.Unfollowed)-i)
			break
		}
		s.note("%s is not followed: %s", u.Where, u.Text)
	}
}

// ownDNSClaims are the routes of the cluster's own DNS. If no server of a domain can be asked, its queries fail: its names must not leak.
func (s *serving) ownDNSClaims() []precedence.Claim {
	if s.own == nil {
		return nil
	}
	var claims []precedence.Claim
	for _, route := range s.own.Routes {
		c := precedence.Claim{
			Source: precedence.FromCluster, Detail: route.Where, Domain: route.Domain, Servers: route.Servers, GivesWay: route.Domain.IsRoot(),
		}
		if route.Local {
			c.Kind = precedence.Local
		}
		claims = append(claims, c)
	}
	return claims
}

// ownHosts are the hosts of the cluster's own DNS, without names that have a record in dnsmasq's files or lie in a pinned domain.
func ownHosts(all []clusterdns.Host, files *localdata.Data, pinned []dnsname.Name) (hosts []dnsmasqconf.Host) {
	isAdmins := func(name dnsname.Name) bool { return files.Has(name) || slices.ContainsFunc(pinned, name.Within) }
	for _, h := range all {
		if names := slices.DeleteFunc(slices.Clone(h.Names), isAdmins); len(names) > 0 {
			hosts = append(hosts, dnsmasqconf.Host{
				Names: names, Addrs: []netip.Addr{h.Addr}, TTL: h.TTL, NoReverse: h.NoReverse, Whole: true, Place: placeOf(h.Where),
			})
		}
	}
	return hosts
}

// placeOf is the place that "ConfigMap kube-system/coredns Corefile:12" names.
func placeOf(where string) dnsmasqconf.Place {
	i := strings.LastIndexByte(where, ':')
	line, err := strconv.Atoi(where[i+1:])
	if err != nil {
		return dnsmasqconf.Place{File: where}
	}
	return dnsmasqconf.Place{File: where[:i], Line: line}
}

// beneath are the claims for all names that would count without fromCluster, the strongest first.
func (s *serving) beneath() []precedence.Claim {
	isRoot := func(c precedence.Claim) bool {
		return c.Domain.IsRoot() && !c.Plain && len(c.Servers) > 0 && c.Source != precedence.FromCluster
	}
	var claims []precedence.Claim
	for _, r := range s.won {
		if isRoot(r.Claim) {
			claims = append(claims, r.Claim)
		}
	}
	for _, l := range s.lost {
		if isRoot(l.Claim) && l.Barred == "" {
			claims = append(claims, l.Claim)
		}
	}
	slices.SortStableFunc(claims, func(a, b precedence.Claim) int { return cmp.Compare(a.Source, b.Source) })
	return claims
}
