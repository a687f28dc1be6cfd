package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// How long a failure is stored. RFC 9520 section 3.2 requires at least 1 s, and longer times for
// repeated failures.
const (
	firstFailure   = time.Second
	longestFailure = 5 * time.Second
)

// errRemembered is the error that clients get for a stored failure.
var errRemembered = &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeCachedError, Text: dnsserver.FailedBefore}

// errUnusable is the error for a response that cannot be packed. It is stored as a failure, so that
// the next query is a cache hit.
var errUnusable = &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeOther, Text: "the nameserver's response cannot be passed on"}

// hasFailed reports whether the question itself failed: the next handler got SERVFAIL, or no server
// answered. A client that gave up, or too many queries in flight, says nothing about the question.
func hasFailed(m *dns.Msg, err error) bool {
	if err == nil {
		return m != nil && m.Rcode == dns.RcodeServerFailure
	}
	var why *dnsserver.ExtendedError
	return errors.As(err, &why) && (why.Code == dns.ExtendedErrorCodeNoReachableAuthority || why.Code == dns.ExtendedErrorCodeNetworkError) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// rememberFailure stores a failure for a moment, so that not every query for a failing name goes
// upstream. It never replaces a response that may be served as stale. Names with a limit, those
// of the cluster, may appear at any time, so their failures are not stored.
func (c *Cache) rememberFailure(q *dnsserver.Query, k key, said *dns.Msg, err error, epoch uint64) {
	if !q.Msg.RecursionDesired || c.limits.limit(q.Name) != 0 {
		return
	}
	now, life := c.elapsed(), firstFailure
	if old := c.store.find(k, c.store.hash(k)); old != nil {
		switch {
		case old.isUsable(now, c.stale.life):
			return
		case old.isFailure() && err == nil && now-old.stored < 2*longestFailure:
			life = min(2*old.life, longestFailure) // a silent server may return at any time
		}
	}
	m := new(dns.Msg)
	m.Rcode, m.RecursionAvailable = dns.RcodeServerFailure, true
	if e := newEntry(k, q, m, now, life); e != nil {
		e.wire = append(e.wire, firstCause(said, err)...)
		c.store.put(e, epoch)
	}
}

// causeHeader is the size of an Extended DNS Error without its text (RFC 8914 section 2).
const causeHeader = 4 + 2

// firstCause returns the Extended DNS Error with the cause of a failure as an option in wire
// format, or nothing if no cause is known. A server's Cached Error code does not count as a cause.
func firstCause(said *dns.Msg, err error) []byte {
	var why *dnsserver.ExtendedError
	if !errors.As(err, &why) && said != nil {
		if opt := said.IsEdns0(); opt != nil {
			for _, option := range opt.Option {
				if e, ok := option.(*dns.EDNS0_EDE); ok && e.InfoCode != dns.ExtendedErrorCodeCachedError {
					why = &dnsserver.ExtendedError{Code: e.InfoCode, Text: e.ExtraText}
					break
				}
			}
		}
	}
	if why == nil {
		return nil
	}
	told := why.Option()
	option := binary.BigEndian.AppendUint16(nil, dns.EDNS0EDE)
	option = binary.BigEndian.AppendUint16(option, uint16(causeHeader-4+len(told.ExtraText)))
	option = binary.BigEndian.AppendUint16(option, told.InfoCode)
	return append(option, told.ExtraText...)
}

// cause returns the output of firstCause for the stored failure.
func (e *entry) cause() []byte { return e.wire[len(e.message()):] }

// failure returns the error that clients get for the stored failure.
func (e *entry) failure() error {
	cause := e.cause()
	if len(cause) < causeHeader {
		return errRemembered
	}
	why := *errRemembered
	why.First = &dnsserver.ExtendedError{Code: binary.BigEndian.Uint16(cause[4:]), Text: string(cause[causeHeader:])}
	return &why
}

// message returns the response without the cause of a failure that follows it.
func (e *entry) message() []byte {
	const oneQuestion = 1 << 48 // without records: RFC 1035 section 4.1.1
	if e.isFailure() && binary.BigEndian.Uint64(e.wire[4:]) == oneQuestion {
		return e.wire[:e.end]
	}
	return e.wire
}

func (e *entry) isFailure() bool { return e.wire[3]&maskRcode == dns.RcodeServerFailure }
