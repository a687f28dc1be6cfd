package hostdns

import (
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/upstream"
)

// captureSteps write the captured upstreams: first the record, because only it can hold all of
// them, then the file that the daemon and dnsmasq read, then the node resolv.conf. An empty
// selection, as beside an admin's own upstreams, keeps the captured servers. The record still gets
// this node's addresses.
func captureSteps(s *State, selection upstream.Selection) []Step {
	steps := recordSteps(s, selection)
	if !selection.Set.IsEmpty() {
		steps = append(steps, upstreamSteps(s, selection.Set)...)
	}
	return append(steps, nodeResolvConfSteps(s, askedForPods(s, selection.Set))...)
}

// tlsOnly is the content of the upstream file if it can hold none of the servers. Old servers must
// not stay there.
const tlsOnly = "# nameservers over TLS only: see /var/lib/node-dns/upstreams.json\n"

// upstreamSteps leave a file with the same meaning alone, regardless of its comments and line ends:
// dnsmasq and an admin may share it. They write nothing if /etc/dnsmasq.d does not exist, as on a
// node without dnsmasq. The record is complete.
func upstreamSteps(s *State, set upstream.Set) []Step {
	if !s.HasDnsmasqDir {
		return nil
	}
	text := upstreamText(set)
	old, err := upstream.ParseDnsmasqConf(s.Upstreams.Data)
	if err == nil && s.Upstreams.Exists && s.Upstreams.Link == "" && old.Equal(inDnsmasqConf(set)) {
		text = s.Upstreams.Data
	}
	return writeSteps(s.Paths.Upstreams, s.Upstreams, text)
}

func upstreamText(set upstream.Set) []byte {
	if text := set.DnsmasqConf(); len(text) > 0 {
		return text
	}
	return []byte(tlsOnly)
}

// noneForPods is the comment in a node resolv.conf that can name none of the upstreams. The file
// then names this node, which can query them. Without a nameserver, a pod with dnsPolicy Default
// would query itself. Queries that the admin sends over TLS must not go to former upstreams in
// plain text.
const noneForPods = "# no upstream that a pod could ask (TLS, another port, loopback, link-local): see /var/lib/node-dns/upstreams.json"

func nodeResolvConfSteps(s *State, set upstream.Set) []Step {
	return writeSteps(s.Paths.NodeResolvConf, s.NodeResolvConf, nodeResolvConf(s, set))
}

// nodeResolvConf gives the file the nameservers, search list and options that the host has
// without node-dns. With only nameservers in it, pods could not resolve the site's short names once
// their kubelet used this file. Other lines stay.
func nodeResolvConf(s *State, set upstream.Set) []byte {
	file, addrs := resolvconf.Parse(s.NodeResolvConf.Data), forPods(set)
	file.RemoveLine(noneForPods)
	if len(addrs) == 0 {
		file.PrependLine(noneForPods)
		if here := s.Placement().Nameserver; here.IsValid() {
			addrs = append(addrs, here)
		}
	}
	file.SetNameservers(addrs)
	if s.ResolvConf.Err == nil { // otherwise keep the current lists
		file.SetSearch(hostSearch(s))
		file.SetOptions(hostOptions(s))
	}
	return file.Bytes()
}

// NamesNode reports whether the node resolv.conf names this node because a pod can query none of
// the upstreams.
func (s *State) NamesNode() bool { return resolvconf.Parse(s.NodeResolvConf.Data).HasLine(noneForPods) }

// askedForPods returns the upstreams that this node queries: an admin's from node-dns.yaml, else
// the captured ones. If the admin's use TLS, a pod must not query the captured ones in plain text.
func askedForPods(s *State, captured upstream.Set) upstream.Set {
	if len(s.Config.Upstreams) == 0 {
		return captured
	}
	return choose(s, upstream.Candidate{Set: upstream.Set{Servers: s.Config.Upstreams}}).Set
}

// forPods returns the upstreams that a pod can query itself: those that fit into a resolv.conf and
// are not on the node's loopback or link-local (a pod has no interface with that zone).
func forPods(set upstream.Set) []netip.Addr {
	addrs := resolvconf.Parse(set.ResolvConf()).Nameservers()
	return slices.DeleteFunc(addrs, func(addr netip.Addr) bool { return addr.IsLoopback() || addr.Zone() != "" })
}

// writeSteps give path this content. There are none if path has the content and everyone may read
// it, or if before could not be read. The script created its files with mode 0600, which dnsmasq
// can read and the daemon cannot.
func writeSteps(path string, before File, data []byte) []Step {
	if before.Err != nil || before.is(data) && before.Mode == readable(before.Mode) {
		return nil
	}
	return []Step{{Path: path, Action: WriteFile, Data: data, Mode: 0o644, Before: before}}
}

// telling makes the steps notify a program.
func telling(whom program, steps []Step) []Step {
	for i := range steps {
		steps[i].Tell = whom
	}
	return steps
}

// readableSteps make node-dns's own files readable by everyone again if no other step does: the
// daemon is not root.
func readableSteps(s *State, others []Step) []Step {
	var steps []Step
	for _, f := range []struct {
		path string
		File
	}{
		{s.Paths.Record, s.Record},
		{s.Paths.Upstreams, s.Upstreams},
		{s.Paths.NodeResolvConf, s.NodeResolvConf},
		{s.Paths.Original, s.Original},
	} {
		written := slices.ContainsFunc(others, func(step Step) bool { return step.Path == f.path })
		if f.Exists && f.Link == "" && !written {
			steps = append(steps, writeSteps(f.path, f.File, f.Data)...)
		}
	}
	return steps
}

// readable returns mode, or the usual mode if not everyone could read a file with it.
func readable(mode fs.FileMode) fs.FileMode {
	if mode&0o444 != 0o444 {
		return 0o644
	}
	return mode
}

// now returns the time for a new record: s.Now, or the current time if that is zero.
func (s *State) now() time.Time {
	if s.Now.IsZero() {
		return time.Now().UTC().Truncate(time.Second)
	}
	return s.Now
}
