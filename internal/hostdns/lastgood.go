package hostdns

import (
	"fmt"
	"strings"

	"github.com/node-dns/node-dns/internal/upstream"
)

// Capture is what an earlier run captured.
type Capture struct {
	Set    upstream.Set
	Origin upstream.Origin // upstream.LastGood where no record tells
	From   string          // where it came from, for people: "NetworkManager eth0 (System eth0)"
	// Warnings are the lines of the upstream file that do not count. The next run that writes it drops them.
	Warnings []string
}

// Captured reads the two files that hold the captured upstreams. The upstream file says which servers: an admin or
// ansible may have written it by hand. The record says where they came from, and has what the file cannot hold,
// as long as the file is as the run left it.
func Captured(upstreams, recordFile File) Capture {
	record, err := upstream.ParseRecord(recordFile.Data)
	return captured(upstreams, record, err)
}

// captured is Captured for a parsed record; err says why it cannot be read.
func captured(upstreams File, record upstream.Record, err error) Capture {
	inFile, bad := upstream.ParseDnsmasqConf(upstreams.Data) // the good lines of a file with a bad one still count
	c := Capture{Set: inFile, Origin: upstream.LastGood, From: upstreamFile, Warnings: badLines(bad)}
	switch {
	case err == nil && (inFile.IsEmpty() || inFile.Equal(inDnsmasqConf(record.Set))):
		c.Set, c.Origin, c.From = record.Set, record.Origin, source(record)
	case inFile.IsEmpty():
		c.From = "" // an emptied file is no list: the script emptied it on a bad day (its bug B4)
	}
	return c
}

// upstreamFile is Paths.Upstreams as people know it.
const upstreamFile = "/etc/dnsmasq.d/origin-upstream-dns.conf"

// badLines tells the first bad line of the upstream file, and how many more there are.
func badLines(err error) []string {
	if err == nil {
		return nil
	}
	first, more, _ := strings.Cut(err.Error(), "\n")
	text := upstreamFile + ": " + first
	if more != "" {
		text += fmt.Sprintf(" (and %d more)", 1+strings.Count(more, "\n"))
	}
	return []string{text}
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
// node where dnsmasq and its files were removed. Beside a record that file is ours, and names an admin's upstreams perhaps.
func lastGood(s State) Capture {
	k := s.known()
	c := k.captured
	if k.recordErr != nil && c.Set.IsEmpty() && !s.NamesNode() {
		c.Set, c.From = fromResolvConf(upstream.LastGood, s.NodeResolvConf.Data).Set, s.Paths.host(s.Paths.NodeResolvConf)
	}
	return c
}

// candidate is the capture as the last of the sources.
func (c Capture) candidate() upstream.Candidate {
	return upstream.Candidate{Origin: upstream.LastGood, Detail: c.From, Set: c.Set}
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
