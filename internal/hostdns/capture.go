package hostdns

import (
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/upstream"
)

// captureSteps hand the upstreams over: the record first, because it alone can hold all of them, then the file that
// the daemon (and dnsmasq) reads, then the node resolv.conf. An empty selection, beside an admin's own upstreams, leaves the captured
// servers as they are (law 2); the record keeps this node's addresses all the same.
func captureSteps(s State, selection upstream.Selection) []Step {
	var steps []Step
	if step, ok := recordStep(s, selection); ok {
		steps = append(steps, step)
	}
	if step, ok := upstreamStep(s, selection.Set); ok && !selection.Set.IsEmpty() {
		steps = append(steps, step)
	}
	if step, ok := nodeResolvConfStep(s, askedForPods(s, selection.Set)); ok {
		steps = append(steps, step)
	}
	return steps
}

// tlsOnly stands in the upstream file where it can hold none of the servers: old ones must not look like the truth.
const tlsOnly = "# nameservers over TLS only: see /var/lib/node-dns/upstreams.json\n"

// upstreamStep leaves a file alone that means the same, whatever its comments and line ends: dnsmasq and an admin may
// share it. Nothing is written where /etc/dnsmasq.d does not exist, on a node without dnsmasq: the record has it all.
func upstreamStep(s State, set upstream.Set) (Step, bool) {
	if !s.HasDnsmasqDir {
		return Step{}, false
	}
	text := upstreamText(set)
	old, err := upstream.ParseDnsmasqConf(s.Upstreams.Data)
	if err == nil && s.Upstreams.Exists && s.Upstreams.Link == "" && old.Equal(inDnsmasqConf(set)) {
		text = s.Upstreams.Data
	}
	return writeStep(s.Paths.Upstreams, s.Upstreams, text)
}

// upstreamText is a fresh upstream file.
func upstreamText(set upstream.Set) []byte {
	if text := set.DnsmasqConf(); len(text) > 0 {
		return text
	}
	return []byte(tlsOnly)
}

// noneForPods stands in the node resolv.conf where none of the upstreams can. The file names this node then, which asks them:
// without a nameserver a pod with dnsPolicy Default asks itself. Nor may former upstreams be asked in plain text what the
// admin sends over TLS.
const noneForPods = "# no upstream that a pod could ask (TLS, another port, loopback, link-local): see /var/lib/node-dns/upstreams.json"

// nodeResolvConfStep gives the file the nameservers, the search list and the options that the host has without us. With
// nameservers alone a pod did not find the site's names any more, once its kubelet was pointed here. All else in it is kept.
func nodeResolvConfStep(s State, set upstream.Set) (Step, bool) {
	file, addrs := resolvconf.Parse(s.NodeResolvConf.Data), forPods(set)
	file.RemoveLine(noneForPods)
	if len(addrs) == 0 {
		file.PrependLine(noneForPods)
		if here := s.Placement().Nameserver; here.IsValid() {
			addrs = append(addrs, here)
		}
	}
	file.SetNameservers(addrs)
	if s.ResolvConf.Err == nil { // else what is there is as good as it gets
		file.SetSearch(hostSearch(s))
		file.SetOptions(resolvconf.Parse(s.base().Data).Options())
	}
	return writeStep(s.Paths.NodeResolvConf, s.NodeResolvConf, file.Bytes())
}

// NamesNode reports whether the node resolv.conf names this node because a pod can ask none of the upstreams.
func (s State) NamesNode() bool { return resolvconf.Parse(s.NodeResolvConf.Data).HasLine(noneForPods) }

// askedForPods are the upstreams that this node asks: an admin's in node-dns.yaml, else the captured ones. Where the former are over TLS
// a pod must not ask the latter in plain text.
func askedForPods(s State, captured upstream.Set) upstream.Set {
	if len(s.Config.Upstreams) == 0 {
		return captured
	}
	return choose(s, upstream.Candidate{Set: upstream.Set{Servers: s.Config.Upstreams}}).Set
}

// forPods are the upstreams that a pod can ask by itself: of those that a resolv.conf can name, the ones that are not on
// the node's loopback, nor on one of its links (no interface of a pod has that zone).
func forPods(set upstream.Set) []netip.Addr {
	addrs := resolvconf.Parse(set.ResolvConf()).Nameservers()
	return slices.DeleteFunc(addrs, func(addr netip.Addr) bool { return addr.IsLoopback() || addr.Zone() != "" })
}

// writeStep is a Step that gives path this content, or none when it has it and everyone may read it: the script's new
// files were 0600, which the daemon, unlike dnsmasq, cannot read. A file that could not be read is left.
func writeStep(path string, before File, data []byte) (Step, bool) {
	if before.Err != nil || before.is(data) && before.Mode == readable(before.Mode) {
		return Step{}, false
	}
	return Step{Path: path, Action: WriteFile, Data: data, Mode: 0o644, Before: before}, true
}

// readableSteps let everyone read our own files again where no other step does: the daemon is not root.
func readableSteps(s State, others []Step) []Step {
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
		if step, ok := writeStep(f.path, f.File, f.Data); ok && f.Exists && f.Link == "" && !written {
			steps = append(steps, step)
		}
	}
	return steps
}

// readable is the mode of a file of ours that had this one: the usual one where not everyone could read it.
func readable(mode fs.FileMode) fs.FileMode {
	if mode&0o444 != 0o444 {
		return 0o644
	}
	return mode
}

// now is when a record is made; the zero State.Now is the moment of the call.
func (s State) now() time.Time {
	if s.Now.IsZero() {
		return time.Now().UTC().Truncate(time.Second)
	}
	return s.Now
}
