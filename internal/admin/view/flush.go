package view

import (
	"context"
	"fmt"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// FlushCache removes part of the cache and returns the number of removed responses. It serves
// `node-dns cache flush`, SIGUSR2 and ClearCache over D-Bus. Pending questions are answered but not
// cached, and every query after FlushCache returns gets a fresh answer. The health of upstream
// nameservers is kept. If part does not select exactly one thing, the error is a
// control.MistakeError.
func (v *View) FlushCache(part control.CachePart) (entries int, err error) {
	match, err := matchPart(part)
	if err != nil {
		return 0, err
	}
	v.resolver.Forward().Renew() // first, so that no new query joins a pending question
	entries = v.resolver.Cache().Flush(match)
	v.Log.Info("flushed the cache", "entries", entries, "what", partWord(part))
	return entries, nil
}

// FlushAll removes everything from the cache.
func (v *View) FlushAll() (entries int) {
	entries, _ = v.FlushCache(control.CachePart{All: true}) // this part is always valid
	return entries
}

func (v *View) AnswerFlush(_ context.Context, part control.CachePart) (control.CacheFlushed, error) {
	entries, err := v.FlushCache(part)
	return control.CacheFlushed{APIVersion: control.APIVersion, Kind: "CacheFlushed", Entries: entries}, err
}

// matchPart returns a function that selects the responses. nil means all of them.
func matchPart(part control.CachePart) (match func(cache.Remembered) bool, err error) {
	switch {
	case part.Parts() != 1:
		return nil, control.MistakeError{Why: "expected exactly one of a name, a zone, the negative responses, or all"}
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

// partWord formats the part for the log.
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

// canonicalName returns a name as the cache stores it, even with unusual bytes: fully qualified and
// in lower case.
func canonicalName(name string) (string, error) {
	var room [dnswire.MaxName]byte
	end, err := dns.PackDomainName(dns.Fqdn(name), room[:], 0, nil, false)
	if err != nil {
		return "", control.MistakeError{Why: fmt.Sprintf("%q: expected a name", name)}
	}
	name, _, err = dns.UnpackDomainName(dnswire.AppendLower(nil, room[:end]), 0)
	return name, err
}
