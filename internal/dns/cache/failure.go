package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// How long a failure is remembered: RFC 9520 section 3.2 asks for 1 s at least, and longer when it comes again.
const (
	firstFailure   = time.Second
	longestFailure = 5 * time.Second
)

// errRemembered is what a client gets of a failure that is remembered.
var errRemembered = &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeCachedError, Text: dnsserver.FailedBefore}

// errUnusable is what a client gets of a response that cannot be sent on. It is remembered as a failure, so that asking again costs a hit.
var errUnusable = &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeOther, Text: "the nameserver's response cannot be sent on"}

// hasFailed reports whether the next handler could find nothing out: it was told SERVFAIL, or nobody answered it. That a
// client did not wait, or that too much is under way, says nothing about the question.
func hasFailed(m *dns.Msg, err error) bool {
	if err == nil {
		return m != nil && m.Rcode == dns.RcodeServerFailure
	}
	var why *dnsserver.ExtendedError
	return errors.As(err, &why) && (why.Code == dns.ExtendedErrorCodeNoReachableAuthority || why.Code == dns.ExtendedErrorCodeNetworkError) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// rememberFailure has who asks the same be told so for a moment, so that a name that fails is not asked for by each query. It takes the place of
// nothing that may be given out as stale. A name with a limit, of the cluster's, may come at any time, and is asked for.
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
			life = min(2*old.life, longestFailure) // who is silent may be back at any time
		}
	}
	m := new(dns.Msg)
	m.Rcode, m.RecursionAvailable = dns.RcodeServerFailure, true
	if e := newEntry(k, q, m, now, life); e != nil {
		e.wire = append(e.wire, firstCause(said, err)...)
		c.store.put(e, epoch)
	}
}

// causeHeader is the size of an Extended DNS Error without its text: RFC 8914 section 2.
const causeHeader = 4 + 2

// firstCause is the Extended DNS Error that says why a question failed, as an option on the wire; empty: nothing says it. A server
// that says itself that it failed before tells no cause by that.
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

// cause is what firstCause made of the failure that the entry stands for.
func (e *entry) cause() []byte { return e.wire[len(e.message()):] }

// failure is what a client gets of the failure that the entry stands for.
func (e *entry) failure() error {
	cause := e.cause()
	if len(cause) < causeHeader {
		return errRemembered
	}
	why := *errRemembered
	why.First = &dnsserver.ExtendedError{Code: binary.BigEndian.Uint16(cause[4:]), Text: string(cause[causeHeader:])}
	return &why
}

// message is the response without the cause of a failure behind it.
func (e *entry) message() []byte {
	const oneQuestion = 1 << 48 // and no records: RFC 1035 section 4.1.1
	if e.isFailure() && binary.BigEndian.Uint64(e.wire[4:]) == oneQuestion {
		return e.wire[:e.end]
	}
	return e.wire
}

// isFailure reports whether the entry stands for a failure.
func (e *entry) isFailure() bool { return e.wire[3]&maskRcode == dns.RcodeServerFailure }
