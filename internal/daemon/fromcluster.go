package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/node-dns/node-dns/internal/atomicfile"
	"github.com/node-dns/node-dns/internal/cluster"
	"github.com/node-dns/node-dns/internal/clusterdns"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/dnsname"
	"github.com/node-dns/node-dns/internal/precedence"
)

// fromCluster is what the cluster configures of its own DNS, where the configuration says that it is followed. What it says does not change.
type fromCluster struct {
	objects []clusterdns.Object
	failed  []error

	mu       sync.Mutex           // guards what follows
	zones    []dnsname.Name       // the cluster's
	settings *clusterdns.Settings // what objects say where these are the cluster's zones; nil: they have not been read
}

// read is what the objects say. It is the same as long as the cluster's zones are: who looks again and again does not read them each time.
func (f *fromCluster) read(zones []dnsname.Name) *clusterdns.Settings {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.settings == nil || !slices.Equal(f.zones, zones) {
		settings := clusterdns.Read(f.objects, zones)
		f.zones, f.settings = zones, &settings
	}
	return f.settings
}

// maxFromCluster bounds the file, in octets: an object of the API has 1.5 MiB at most, and JSON escapes line ends.
const maxFromCluster = 16 << 20

// loadFromCluster finds what the cluster's DNS was configured to do before the daemon was restarted: until the API answers, the names of a
// stub domain must not go to the site's nameservers.
func (d *Daemon) loadFromCluster() {
	var kept []clusterdns.Object
	data, err := os.ReadFile(d.paths.fromCluster)
	if err == nil && len(data) > maxFromCluster {
		err = fmt.Errorf("%d bytes", len(data))
	}
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log.Warn("what the cluster configures of its DNS is not known before the API answers", "file", d.paths.fromCluster, "error", err)
		kept = nil
	}
	d.ownDNS.Store(&fromCluster{objects: kept})
}

// takeFromCluster takes over what the API says, and keeps it for the next start.
func (d *Daemon) takeFromCluster(settings cluster.Settings) {
	before := d.ownDNS.Swap(&fromCluster{objects: settings.Objects, failed: settings.Failed})
	if !slices.EqualFunc(before.objects, settings.Objects, sameObject) {
		d.keepFromCluster(settings.Objects)
	}
	d.hint("fromCluster")
}

func sameObject(a, b clusterdns.Object) bool {
	one, err1 := json.Marshal(a)
	other, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(one) == string(other)
}

func (d *Daemon) keepFromCluster(objects []clusterdns.Object) {
	data, err := json.Marshal(objects)
	if err == nil {
		_, err = atomicfile.Writer{}.Write(d.paths.fromCluster, data, 0o600)
	}
	if err != nil {
		d.log.Warn("what the cluster configures of its DNS is not kept for the next start", "error", err)
	}
}

// forgetFromCluster drops what is known, when it is not followed any more: nobody would tell that it has changed.
func (d *Daemon) forgetFromCluster() {
	if len(d.ownDNS.Swap(new(fromCluster)).objects) == 0 {
		return
	}
	if err := os.Remove(d.paths.fromCluster); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log.Warn("what the cluster configures of its DNS is still kept", "error", err)
	}
}

// maxUnfollowed bounds the notes about what cannot be followed.
const maxUnfollowed = 20

// addFromCluster adds the names that the cluster's DNS knows from hosts blocks, and says what of it is not followed. A name that dnsmasq's files
// have, which are the admin's of this node, is theirs.
func (s *serving) addFromCluster(in inputs) {
	s.said = in.dnsmasq
	if in.ownDNS == nil {
		return
	}
	s.own = in.ownDNS.read(s.apexes)
	for _, err := range in.ownDNS.failed {
		s.problems = append(s.problems, fmt.Sprintf("%s: what the cluster configures of its DNS is not followed: %v", in.config.Where("fromCluster"), err))
	}
	if s.api == (api{}) {
		s.problems = append(s.problems, in.config.Where("fromCluster")+": no Kubernetes API is watched (see kubeconfig)")
	}
	for i, u := range s.own.Unfollowed {
		if i == maxUnfollowed {
			s.note("%d more parts of what the cluster configures of its DNS are not followed", len(s.own.Unfollowed)-i)
			break
		}
		s.note("%s is not followed: %s", u.Where, u.Text)
	}
	s.said.Hosts = slices.Clip(s.said.Hosts)
	for _, h := range s.own.Hosts {
		names := slices.DeleteFunc(slices.Clone(h.Names), func(name dnsname.Name) bool {
			_, isKnown := in.dnsmasq.Where(name)
			return isKnown
		})
		if len(names) > 0 {
			s.said.Hosts = append(s.said.Hosts, dnsmasqconf.Host{
				Names: names, Addrs: []netip.Addr{h.Addr}, TTL: h.TTL, NoReverse: h.NoReverse, Place: placeOf(h.Where),
			})
		}
	}
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

// ownDNSClaims are what the cluster's own DNS is configured to forward. A domain of it fails where none of its servers can be asked: its names must
// not leak.
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
