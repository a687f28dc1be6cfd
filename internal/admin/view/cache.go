package view

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// dumpStep is the number of responses after which a dump sleeps for as long as they took, because
// queries have priority on the processor.
const dumpStep = 256

// DumpCache sends the cached responses that part selects. The zero part selects all.
func (v *View) DumpCache(ctx context.Context, part control.CachePart, send func(control.CacheEntry) error) error {
	return dump(ctx, v.resolver.Cache(), part, send)
}

// dump sends one entry at a time, so that a million responses are never copied at once.
func dump(ctx context.Context, c *cache.Cache, part control.CachePart, send func(control.CacheEntry) error) error {
	if part == (control.CachePart{}) {
		part.All = true
	}
	match, err := matchPart(part)
	if err != nil {
		return err
	}
	sent, began := 0, time.Now()
	c.Walk(func(r cache.Remembered) bool {
		if match != nil && !match(r) {
			return true
		}
		if err = send(cacheEntry(r)); err == nil {
			err = ctx.Err()
		}
		if sent++; sent%dumpStep == 0 {
			time.Sleep(time.Since(began))
			began = time.Now()
		}
		return err == nil
	})
	return err
}

// cacheEntry converts a response for display. A response that cannot be parsed has no records. The
// TTL is rounded up to whole seconds, like the TTLs of the records, and the age is rounded down.
func cacheEntry(r cache.Remembered) control.CacheEntry {
	e := control.CacheEntry{
		Name: r.QName, Type: dnswire.TypeText(r.Type), Result: result(r), Stale: r.TTL <= 0,
		TTL: int64((max(0, r.TTL) + time.Second - 1) / time.Second), Age: int64(max(0, r.Age) / time.Second), DO: r.DO, CD: r.CD, Answer: []control.Record{},
	}
	if !r.Server.IsZero() {
		e.Server = r.Server.String()
	}
	m := r.Msg()
	if m == nil {
		return e
	}
	e.AD = m.AuthenticatedData
	for _, rr := range m.Answer {
		e.Answer = append(e.Answer, cacheRecord(rr))
	}
	for _, rr := range m.Ns {
		if rr.Header().Rrtype == dns.TypeSOA && r.IsNegative {
			soa := cacheRecord(rr)
			e.SOA = &soa
		}
	}
	return e
}

func result(r cache.Remembered) string {
	if r.IsNegative && r.Rcode == dns.RcodeSuccess {
		return "NODATA"
	}
	return dns.RcodeToString[r.Rcode]
}

// cacheRecord converts a record to master file format. miekg/dns escapes unprintable characters
// there, and has no text form for some records.
func cacheRecord(rr dns.RR) control.Record {
	h := rr.Header()
	text := dnswire.Readable(rr).String()
	if unknown := new(dns.RFC3597); strings.HasPrefix(text, ";") && unknown.ToRFC3597(rr) == nil {
		text = unknown.String()
	}
	r := control.Record{Name: h.Name, TTL: h.Ttl, Class: dns.Class(h.Class).String(), Type: dnswire.TypeText(h.Rrtype), Data: `\# 0`}
	if fields := strings.SplitN(text, "\t", 5); len(fields) == 5 && h.Rdlength > 0 {
		r.Data = fields[4]
	}
	return r
}

// CacheStats counts the cache's contents, which takes a tenth of a second for a million responses.
func (v *View) CacheStats(context.Context) control.CacheStats {
	c := v.resolver.Cache()
	stats := c.Stats()
	s := control.CacheStats{
		APIVersion: control.APIVersion, Kind: "CacheStats", Entries: stats.Entries, Size: stats.Size, Bytes: stats.Bytes, MaxBytes: stats.MaxBytes,
		Hits: stats.Hits, Misses: stats.Misses, Stale: stats.Stale, Prefetched: stats.Prefetched,
		Insertions: stats.Insertions, Evictions: stats.Evictions,
	}
	counted := 0
	c.Walk(func(r cache.Remembered) bool {
		counted++
		if r.TTL <= 0 {
			s.Results.Stale++
		}
		switch result(r) {
		case "NOERROR":
			s.Results.Answers++
		case "NODATA":
			s.Results.NoData++
		case "NXDOMAIN":
			s.Results.NXDomain++
		default:
			s.Results.Failures++
		}
		return true
	})
	s.Results.Expired = max(0, stats.Entries-counted)
	return s
}

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
