package forward

import (
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
)

// noteRoute adds the servers of the route to the trace.
func noteRoute(t *dnsserver.Trace, r *route) {
	if t == nil || r == nil {
		return
	}
	var servers []string
	for _, s := range r.servers {
		servers = append(servers, s.Server.String()+" ("+string(s.State())+")")
	}
	t.Note("the route " + r.Domain.String() + " leads to " + strings.Join(servers, ", "))
}

// note adds a step to the trace of a flight that has not ended. The trace belongs to the query
// that began the flight. A query that joins it later sees no steps.
func (fl *flight) note(words ...string) {
	if fl.trace != nil && !fl.isFinished {
		fl.trace.Note(strings.Join(words, " "))
	}
}

// noteTry notes a query that is about to be sent.
func (fl *flight) noteTry(t *try) {
	if fl.trace == nil || fl.isFinished {
		return
	}
	words := []string{"asks", t.to.Server.String(), "over"}
	switch {
	case t.to.tls != nil:
		words = append(words, "TLS")
	case t.conn != nil:
		words = append(words, "TLS (opportunistic)")
	case t.stop != nil:
		words = append(words, "TCP")
	default:
		words = append(words, "UDP")
	}
	for _, way := range []struct {
		is   bool
		word string
	}{{t.again, "again"}, {t.noEDNS, "without EDNS"}, {t.isParallel, "beside UDP"}, {t.isProbe, "to check whether it is back"}} {
		if way.is {
			words[len(words)-1] += ","
			words = append(words, way.word)
		}
	}
	fl.note(words...)
}

// noteSilence notes that the wait for a server is over and the next query is sent.
func (fl *flight) noteSilence(s *server) {
	if fl.trace != nil {
		fl.note(s.Server.String(), "has not answered yet")
	}
}

// noteOutcome notes a result that is not the answer.
func (fl *flight) noteOutcome(o outcome) {
	if fl.trace == nil {
		return
	}
	text := "needs a different query"
	switch {
	case o.isUnreadable:
		text = "sent an unreadable response"
	case o.isInvalid:
		text = "sent an invalid response"
	case o.err != nil || o.msg != nil:
		text = "fails: " + o.reason()
	}
	fl.note(o.to.Server.String(), text)
}

func (fl *flight) noteAnswer(t *try, l flightResult) {
	if fl.trace == nil {
		return
	}
	rcode := 0
	if l.msg != nil {
		rcode = l.msg.Rcode
	} else {
		rcode = exchange.Rcode(l.wire.Message)
	}
	fl.note(t.to.Server.String(), "answers", dns.RcodeToString[rcode])
}
