package daemon

import (
	"context"
	"fmt"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// flushCache forgets a part of what is remembered, and returns how many responses that was: for `node-dns cache flush`, SIGUSR2, and
// ClearCache over D-Bus. What was asked for before is answered, and not remembered; who asks after this returns gets no older answer.
// An upstream nameserver's health is not of names, and stays. A part that names nothing, or more than one thing, is a control.MistakeError.
func (d *Daemon) flushCache(part control.CachePart) (entries int, err error) {
	match, err := matchPart(part)
	if err != nil {
		return 0, err
	}
	d.resolver.Forward().Renew() // first: nobody who counts as new may join what is in flight
	entries = d.resolver.Cache().Flush(match)
	d.log.Info("flushed the cache", "entries", entries, "what", partWord(part))
	return entries, nil
}

// flushAll is flushCache of everything.
func (d *Daemon) flushAll() (entries int) {
	entries, _ = d.flushCache(control.CachePart{All: true}) // which is no mistake
	return entries
}

func (d *Daemon) answerFlush(_ context.Context, part control.CachePart) (control.CacheFlushed, error) {
	entries, err := d.flushCache(part)
	return control.CacheFlushed{APIVersion: control.APIVersion, Kind: "CacheFlushed", Entries: entries}, err
}

// matchPart says which responses are meant; nil: all.
func matchPart(part control.CachePart) (match func(cache.Remembered) bool, err error) {
	switch {
	case part.Parts() != 1:
		return nil, control.MistakeError{Why: "expected one of a name, a zone, the negative responses, or all"}
	case part.Negative:
		return func(r cache.Remembered) bool { return r.IsNegative }, nil
	case part.All:
		return nil, nil
	}
	name, err := canonicalName(part.Name + part.Zone)
	if err != nil {
		return nil, err
	}
	if part.Zone != "" {
		return func(r cache.Remembered) bool { return dns.IsSubDomain(name, r.QName) }, nil
	}
	return func(r cache.Remembered) bool { return r.QName == name }, nil
}

// partWord is the part for the log.
func partWord(part control.CachePart) string {
	switch {
	case part.All:
		return "all"
	case part.Negative:
		return "negative"
	case part.Zone != "":
		return "zone " + part.Zone
	}
	return part.Name
}

// canonicalName is a name as the cache writes it, whatever its octets: fully qualified and in lower case.
func canonicalName(name string) (string, error) {
	var room [dnswire.MaxName]byte
	end, err := dns.PackDomainName(dns.Fqdn(name), room[:], 0, nil, false)
	if err != nil {
		return "", control.MistakeError{Why: fmt.Sprintf("%q is no name", name)}
	}
	name, _, err = dns.UnpackDomainName(dnswire.AppendLower(nil, room[:end]), 0)
	return name, err
}
