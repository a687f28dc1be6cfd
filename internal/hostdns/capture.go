package hostdns

import (
	"time"

	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/upstream"
)

// captureSteps hand the upstreams over: the record first, because it alone can hold all of them, then the file that
// the daemon (and dnsmasq) reads, then the node resolv.conf.
func captureSteps(s State, selection upstream.Selection) []Step {
	var steps []Step
	if step, ok := recordStep(s, selection); ok {
		steps = append(steps, step)
	}
	if step, ok := upstreamStep(s, selection.Set); ok {
		steps = append(steps, step)
	}
	if step, ok := nodeResolvConfStep(s, selection.Set); ok {
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
	text := set.DnsmasqConf()
	if len(text) == 0 {
		text = []byte(tlsOnly)
	}
	old, err := upstream.ParseDnsmasqConf(s.Upstreams.Data)
	if err == nil && s.Upstreams.Exists && s.Upstreams.Link == "" && old.Equal(inDnsmasqConf(set)) {
		text = s.Upstreams.Data
	}
	return writeStep(s.Paths.Upstreams, s.Upstreams, text)
}

func nodeResolvConfStep(s State, set upstream.Set) (Step, bool) {
	want := resolvconf.Parse(set.ResolvConf())
	if len(want.Nameservers()) == 0 {
		return Step{}, false
	}
	file := resolvconf.Parse(s.NodeResolvConf.Data)
	file.SetNameservers(want.Nameservers())
	return writeStep(s.Paths.NodeResolvConf, s.NodeResolvConf, file.Bytes())
}

// writeStep is a Step that gives path this content, or none when it has it and everyone may read it: the script's new
// files were 0600, which the daemon, unlike dnsmasq, cannot read. A file that could not be read is left.
func writeStep(path string, before File, data []byte) (Step, bool) {
	if before.Err != nil || before.is(data) && before.Mode&0o444 == 0o444 {
		return Step{}, false
	}
	return Step{Path: path, Action: WriteFile, Data: data, Mode: 0o644, Before: before}, true
}

// now is when a record is made; the zero State.Now is the moment of the call.
func (s State) now() time.Time {
	if s.Now.IsZero() {
		return time.Now().UTC().Truncate(time.Second)
	}
	return s.Now
}
