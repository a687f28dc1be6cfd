package hostdns

import (
	"strings"

	"github.com/node-dns/node-dns/internal/upstream"
)

// Capture is what an earlier run captured.
type Capture struct {
	Set  upstream.Set
	From string // where it came from, for people: "NetworkManager eth0 (System eth0)"
}

// Captured reads the two files that hold the captured upstreams. The upstream file says which servers: an admin or
// ansible may have written it by hand. The record says where they came from, and has what the file cannot hold,
// as long as the file is as the run left it.
func Captured(upstreams, recordFile File) Capture {
	inFile, _ := upstream.ParseDnsmasqConf(upstreams.Data) // the good lines of a file with a bad one still count
	record, err := upstream.ParseRecord(recordFile.Data)
	switch {
	case err == nil && (inFile.IsEmpty() || inFile.Equal(inDnsmasqConf(record.Set))):
		return Capture{Set: record.Set, From: source(record)}
	case inFile.IsEmpty():
		return Capture{} // an emptied file is no list: the script emptied it on a bad day (its bug B4)
	}
	return Capture{Set: inFile, From: "/etc/dnsmasq.d/origin-upstream-dns.conf"}
}

// source is where a record's servers came from. The detail of a last-good one is its source already: with its origin
// before it each run would add a word of its own.
func source(r upstream.Record) string {
	if r.Origin == upstream.LastGood {
		return r.Detail
	}
	return strings.TrimSpace(string(r.Origin) + " " + r.Detail)
}

// lastGood is what a run falls back to: what was captured; else the node resolv.conf, which is all that is left on a
// node where dnsmasq and its files were removed.
func lastGood(s State) Capture {
	if captured := Captured(s.Upstreams, s.Record); !captured.Set.IsEmpty() {
		return captured
	}
	return Capture{
		Set:  fromResolvConf(upstream.LastGood, s.NodeResolvConf.Data).Set,
		From: s.Paths.host(s.Paths.NodeResolvConf),
	}
}

// inDnsmasqConf is the part of a set that the upstream file can hold.
func inDnsmasqConf(set upstream.Set) upstream.Set {
	part, _ := upstream.ParseDnsmasqConf(set.DnsmasqConf())
	return part
}

// inResolvConf is the part of a set that a resolv.conf can hold.
func inResolvConf(set upstream.Set) upstream.Set {
	return fromResolvConf(upstream.LastGood, set.ResolvConf()).Set
}
