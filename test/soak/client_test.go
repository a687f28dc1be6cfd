package soak

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// A kind is what is asked for.
type kind int

const (
	hit     kind = iota // one of a hundred names that are asked for again and again
	miss                // a name that nobody has asked for
	cluster             // a Service's name
	pattern             // a Pod's name, by its address
	absent              // a name that the cluster has not
	kinds
)

func (k kind) String() string {
	return [...]string{"hit", "miss", "cluster", "pod pattern", "absent"}[k]
}

// serviceIP is the address of web.shop.svc.cluster.local.
const serviceIP = "172.30.0.9"

// A question is one that waits for its answer.
type question struct {
	kind   kind
	name   string
	wire   []byte
	at     time.Time
	counts *counts
}

// unique numbers the names that nobody has asked for.
var unique atomic.Uint64

func newQuestion(k kind, n uint64) *question {
	q := &question{kind: k, at: time.Now()}
	switch k {
	case hit:
		q.name = fmt.Sprintf("h%d.hot.example.", n%100)
	case miss:
		q.name = fmt.Sprintf("m%d.site.example.", unique.Add(1))
	case cluster:
		q.name = "web.shop.svc.cluster.local."
	case pattern:
		q.name = fmt.Sprintf("10-128-%d-%d.shop.pod.cluster.local.", n/250%250, n%250)
	case absent:
		q.name = "www.example.com.shop.svc.cluster.local."
	}
	m := new(dns.Msg).SetQuestion(q.name, dns.TypeA)
	if n%2 == 0 {
		m.SetEdns0(1232, false)
	}
	wire, err := m.Pack()
	if err != nil {
		panic(fmt.Sprintf("packing %s: %v", q.name, err)) // the name is part of the test
	}
	q.wire = wire
	return q
}

// judge says what an answer is worth.
func (q *question) judge(wire []byte) (o outcome, what string) {
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		return wrong, err.Error()
	}
	want := address
	switch q.kind {
	case cluster:
		want = serviceIP
	case pattern:
		want = ""
	}
	switch {
	case !m.Response || len(m.Question) != 1 || m.Question[0].Name != q.name:
		return wrong, "the response to another question"
	case m.Rcode == dns.RcodeServerFailure:
		return failed, fmt.Sprint("SERVFAIL ", m.IsEdns0())
	case q.kind == absent:
		if m.Rcode == dns.RcodeNameError && len(m.Answer) == 0 {
			return right, ""
		}
	case m.Rcode == dns.RcodeSuccess && len(m.Answer) == 1:
		if a, ok := m.Answer[0].(*dns.A); ok && (want == "" || a.A.String() == want) && a.Hdr.Ttl > 0 && a.Hdr.Ttl <= ttl {
			return right, ""
		}
	}
	return wrong, m.String()
}

// patience is that of glibc (resolv.conf(5)).
const patience = 5 * time.Second

// A part is some clients that ask the same.
type part struct {
	clients int
	share   float64 // of all that is asked
	// window is how many questions of a client are waited for at most. Together they are fewer than a socket has room for
	// where net.core.rmem_max is the kernel's own: a machine that is busy is asked less, instead of losing more.
	window int
	plan   []kind // in turns
}

// parts are what the load is made of. Names that nobody has asked for have clients of their own: they may have to wait for an
// upstream nameserver, and the others do not.
var parts = []part{
	{clients: 12, share: 0.75, window: 8, plan: []kind{hit, hit, cluster, hit, hit, absent, hit, pattern, hit, cluster, hit, absent}},
	{clients: 6, share: 0.25, window: 32, plan: []kind{miss}},
}

// A client asks over a socket of its own, from an address of its own.
type client struct {
	t      *testing.T
	tally  *tally
	conn   *net.UDPConn
	places chan struct{}

	mu      sync.Mutex // guards what follows
	next    uint16
	waiting map[uint16]*question
}

func newClient(t *testing.T, tally *tally, n, window int, to netip.AddrPort) *client {
	from := &net.UDPAddr{IP: net.IPv4(127, 1, 0, byte(1+n))}
	conn, err := net.DialUDP("udp4", from, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatalf("a client's socket: %v", err)
	}
	return &client{t: t, tally: tally, conn: conn, places: make(chan struct{}, window), waiting: map[uint16]*question{}}
}

// run asks until ctx ends, and waits for the last answers.
func (c *client) run(ctx context.Context, rate float64, plan []kind) {
	var reading sync.WaitGroup
	reading.Go(c.read)
	pause := time.Duration(float64(time.Second) / rate)
	due := time.Now()
	for n := uint64(0); ctx.Err() == nil; n++ {
		due = due.Add(pause)
		if wait := time.Until(due); wait > time.Millisecond {
			time.Sleep(wait)
		} else if wait < -100*time.Millisecond {
			due = time.Now() // what could not be asked in time is not asked at once
		}
		c.places <- struct{}{} // a place is free at the latest after patience
		c.send(newQuestion(plan[n%uint64(len(plan))], n))
	}
	for range cap(c.places) {
		c.places <- struct{}{}
	}
	c.conn.Close()
	reading.Wait()
}

func (c *client) send(q *question) {
	q.counts = c.tally.ask()
	c.mu.Lock()
	c.next++
	id := c.next
	c.waiting[id] = q
	c.mu.Unlock()
	binary.BigEndian.PutUint16(q.wire, id)
	_, _ = c.conn.Write(q.wire) // what could not be sent is lost, and counted so
}

// read takes answers, and gives those up that have had their time.
func (c *client) read() {
	buf := make([]byte, 4096)
	for {
		_ = c.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, err := c.conn.Read(buf)
		if opErr, ok := err.(*net.OpError); ok && !opErr.Timeout() && isClosed(err) {
			return
		}
		if err != nil {
			c.expire()
			continue
		}
		c.mu.Lock()
		id := binary.BigEndian.Uint16(buf)
		q := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if q == nil {
			continue
		}
		o, what := q.judge(buf[:n])
		c.tally.ended(q.counts, q, o, what)
		<-c.places
	}
}

func (c *client) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, q := range c.waiting {
		if time.Since(q.at) > patience {
			delete(c.waiting, id)
			c.tally.ended(q.counts, q, lost, "no answer")
			<-c.places
		}
	}
}
