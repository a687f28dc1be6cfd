package hostdns

import (
	"fmt"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/upstream"
)

// Capture is the set of upstreams that an earlier run captured.
type Capture struct {
	Set    upstream.Set
	Origin upstream.Origin // upstream.LastGood if no record gives it
	From   string          // the source, for display: "NetworkManager eth0 (System eth0)"
	// Warnings are the lines of the upstream file that are ignored. The next run that writes the
	// file drops them.
	Warnings []string
}

// Captured reads the two files that hold the captured upstreams. The upstream file decides which
// servers they are, because an admin or Ansible may have edited it. The record gives their source,
// and what the upstream file cannot hold, as long as that file is as the run left it.
func Captured(upstreams, recordFile File) Capture {
	return newKnown(upstreams, recordFile).captured
}

// captured is Captured for a parsed record; err says why it cannot be read.
func captured(upstreams File, record upstream.Record, err error) Capture {
	inFile, bad := upstream.ParseDnsmasqConf(upstreams.Data) // the valid lines of a file with invalid ones still count
	c := Capture{Set: inFile, Origin: upstream.LastGood, From: upstreamFile, Warnings: badLines(bad)}
	switch {
	case err == nil && (inFile.IsEmpty() || inFile.Equal(inDnsmasqConf(record.Set))):
		c.Set, c.Origin, c.From = record.Set, record.Origin, source(record)
	case inFile.IsEmpty():
		c.From = "" // an empty file is not a list: the script emptied it if it found no nameserver
	}
	return c
}

// upstreamFile is Paths.Upstreams in messages.
const upstreamFile = "/etc/dnsmasq.d/origin-upstream-dns.conf"

// badLines returns a warning with the first invalid line of the upstream file and the number of
// others.
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

// source is where a record's servers came from. The detail of a last-good record is already a
// complete source. With the origin in front, each run would add another word.
func source(r upstream.Record) string {
	if r.Origin == upstream.LastGood {
		return r.Detail
	}
	return r.Origin.With(r.Detail)
}

// InUse returns the captured upstreams. Without a capture, because the hook has not run yet or may
// not write, it returns what the hook would capture. If that has no upstream, it returns before:
// law 2 also applies to the daemon, and the files may be missing or unreadable.
func InUse(s State, p Plan, before Capture) Capture {
	c := Captured(s.Upstreams, s.Record)
	if c.Set.IsEmpty() {
		c = Capture{Set: p.Selection.Set, Origin: p.Selection.Origin, From: p.Selection.Origin.With(p.Selection.Detail)}
	}
	if c.Set.IsEmpty() {
		return before
	}
	return c
}

// Source returns the source of the captured servers. It is not NetworkManager any more if only a
// weaker source names them now.
func (c Capture) Source(now upstream.Selection) nameserver.Source {
	return max(c.Origin.Source(), now.Origin.Source())
}

// lastGood is what a run falls back to: the captured upstreams, else the node resolv.conf, which is
// all that remains on a node where dnsmasq and its files were removed. If a record exists, node-dns
// wrote that file, possibly with an admin's upstreams.
func lastGood(s *State) Capture {
	k := s.known()
	c := k.captured
	if k.recordErr != nil && c.Set.IsEmpty() && !s.NamesNode() {
		c.Set, c.From = fromResolvConf(upstream.LastGood, s.NodeResolvConf.Data).Set, s.Paths.host(s.Paths.NodeResolvConf)
	}
	return c
}

// candidate returns the capture as the last of the sources.
func (c Capture) candidate() upstream.Candidate {
	return upstream.Candidate{Origin: upstream.LastGood, Detail: c.From, Set: c.Set}
}

// inDnsmasqConf returns the part of a set that the upstream file can hold.
func inDnsmasqConf(set upstream.Set) upstream.Set {
	part, _ := upstream.ParseDnsmasqConf(set.DnsmasqConf())
	return part
}

// inResolvConf returns the part of a set that a resolv.conf can hold.
func inResolvConf(set upstream.Set) upstream.Set {
	return fromResolvConf(upstream.LastGood, set.ResolvConf()).Set
}
