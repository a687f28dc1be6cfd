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

// kind is a kind of question.
type kind int

const (
	hit     kind = iota // one of a hundred names that are queried repeatedly
	miss                // a new name
	cluster             // a Service's name
	pattern             // a Pod's name, by its address
	absent              // a name that does not exist in the cluster
	kinds
)

func (k kind) String() string {
	return [...]string{"hit", "miss", "cluster", "pod pattern", "absent"}[k]
}

// serviceIP is the address of web.shop.svc.cluster.local.
const serviceIP = "172.30.0.9"

// question is a question that waits for its answer.
type question struct {
	kind   kind
	name   string
	wire   []byte
	at     time.Time
	counts *counts
}

// unique numbers the new names.
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

// judge evaluates an answer.
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

// patience is the timeout of glibc (resolv.conf(5)).
const patience = 5 * time.Second

// part is a group of clients with the same load.
type part struct {
	clients int
	share   float64 // share of the total rate
	// window is the maximum number of pending questions per client. The sum is lower than what a
	// socket buffer holds with the kernel's default net.core.rmem_max. A busy machine therefore
	// gets fewer queries instead of losing more.
	window int
	plan   []kind // repeated in turn
}

// parts are the components of the load. New names have their own clients, because they may have to
// wait for an upstream nameserver and the others do not.
var parts = []part{
	{clients: 12, share: 0.75, window: 8, plan: []kind{hit, hit, cluster, hit, hit, absent, hit, pattern, hit, cluster, hit, absent}},
	{clients: 6, share: 0.25, window: 32, plan: []kind{miss}},
}

// client has its own socket and its own address.
type client struct {
	t      *testing.T
	tally  *tally
	conn   *net.UDPConn
	places chan struct{}

	mu      sync.Mutex // guards the fields below
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

// run sends questions until ctx ends and waits for the last answers.
func (c *client) run(ctx context.Context, rate float64, plan []kind) {
	var reading sync.WaitGroup
	reading.Go(c.read)
	pause := time.Duration(float64(time.Second) / rate)
	due := time.Now()
	for n := uint64(0); ctx.Err() == nil; n++ {
		for c.tally.paused.Load() && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		due = due.Add(pause)
		if wait := time.Until(due); wait > time.Millisecond {
			time.Sleep(wait)
		} else if wait < -100*time.Millisecond {
			due = time.Now() // do not catch up on questions that could not be sent in time
		}
		c.places <- struct{}{} // a place becomes free within patience
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
	_, _ = c.conn.Write(q.wire) // a question that could not be sent counts as lost
}

// read receives answers and gives up questions after their timeout.
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
