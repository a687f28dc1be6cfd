package dnsserver

import (
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// ResponseBatch collects responses to PendingQueries of any sockets, so that the responses of one
// socket are sent in one system call. It belongs to one goroutine, which must call Flush before it
// blocks. The zero ResponseBatch is ready for use.
type ResponseBatch struct {
	box      outbox
	queries  [batchSize]*PendingQuery // queries whose responses are in box
	from, to int                      // range that send sends
	failed   int                      // number of these that failed
	send     func(uintptr)            // created once, because a function value per call would allocate
}

// Buffer returns a buffer for the response passed to the next SendWith. A response that fits stays
// there until Flush.
func (o *ResponseBatch) Buffer() []byte { return o.box.buffer() }

// SendWith sends the response that came from the given nameserver at o's next Flush. The response
// must not change until then. If it is nil, no response is sent. The query's Msg is valid until
// SendWith is called.
func (l *PendingQuery) SendWith(o *ResponseBatch, response []byte, from nameserver.Handle) {
	if l.over.Swap(true) {
		return
	}
	response = l.u.s.finish(response, 0, &l.query)
	l.count(response)
	l.tell(response, from)
	if len(response) == 0 {
		l.end(nil)
		return
	}
	o.queries[o.box.n] = l
	o.box.add(response, l.x.client, l.sample)
	if o.box.n == len(o.queries) {
		o.Flush()
	}
}

// Flush sends the collected responses.
func (o *ResponseBatch) Flush() {
	n := o.box.n
	if n == 0 {
		return
	}
	if o.send == nil {
		o.send = func(fd uintptr) { o.failed = o.box.send(fd, o.from, o.to) }
	}
	for o.from = 0; o.from < n; o.from = o.to {
		u := o.gather(n)
		o.failed = o.to - o.from
		_ = u.file.Control(o.send) // fails on a closed socket only
		if o.failed > 0 {
			u.s.counters.writeErrors.Add(uint64(o.failed))
		}
		now := time.Now()
		for i, l := range o.queries[o.from:o.to] {
			u.late.traffic.add(now.Sub(l.x.arrived), o.box.samples[o.from+i])
		}
	}
	o.box.empty()
	for _, l := range o.queries[:n] {
		l.ended()
	}
	clear(o.queries[:n])
}

// gather moves all responses that use the same socket as the one at index from next to it, and sets
// to to their end.
func (o *ResponseBatch) gather(n int) *udpSocket {
	u := o.queries[o.from].u
	o.to = o.from + 1
	for i := o.to; i < n; i++ {
		if o.queries[i].u == u {
			o.queries[i], o.queries[o.to] = o.queries[o.to], o.queries[i]
			o.box.messages[i], o.box.messages[o.to] = o.box.messages[o.to], o.box.messages[i]
			o.box.samples[i], o.box.samples[o.to] = o.box.samples[o.to], o.box.samples[i]
			o.to++
		}
	}
	return u
}
