package dnstest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// A Load queries a nameserver at a steady rate, regardless of the results. Like glibc within its
// timeout of 5 s (resolv.conf(5)), it sends each question once, and again over TCP if the answer is
// truncated. It retries once over a new connection if a connection is reset before the answer, as
// glibc's send_vc does.
type Load struct {
	Server netip.AddrPort
	Rate   int // questions per second
	Count  int // number of questions; 0 means until Stop
	// Window is the maximum number of UDP questions without an answer. At the limit, the Load
	// pauses until an answer arrives or 5 s have passed. 0 means no limit.
	Window int
	Asks   []Ask // sent in turn; repeated ones are sent more often
	// Sockets is the number of sockets for UDP questions, with 65,536 IDs each. 0 means 8.
	Sockets int
	// Patience is how long a question waits for its answer. 0 means 5 s, as in a stub resolver. Use
	// more if the machine may pause during the test.
	Patience time.Duration
	// Each is called with the result of each question, concurrently. nil disables it.
	Each func(Answer)
	// Clients are the source addresses, used in turn, because a server may limit each client. If
	// empty, the kernel picks the address.
	Clients []netip.Addr
}

// An Ask is a question of a Load and its expected answer.
type Ask struct {
	Name string // fully qualified; %d is replaced by the number of the question, which makes the name unique
	Type uint16
	TCP  bool
	Want string // data of the last answer record, in zone-file format; "" means NXDOMAIN
}

// An Answer is the result of one question of a Load.
type Answer struct {
	Name  string
	Asked time.Time
	Took  time.Duration
	Msg   *dns.Msg // nil if there was no valid answer in time
	Fault string   // difference from the expected answer; "" if there is none
}

// What Mixed requires: the records of the site's nameserver, those of the nameserver for
// slow.example., and the address of the Service web in the namespace shop.
const (
	MixedSite    = "*. 300 IN A 192.0.2.80\n"
	MixedSlow    = "*. 300 IN A 192.0.2.81\n"
	MixedService = "172.30.0.9"
)

// Mixed returns the queries of a node's clients: popular names, unique names, names of the cluster,
// a few names of a slow nameserver, and a few over TCP.
func Mixed() []Ask {
	var asks []Ask
	for i := range 100 {
		ask := Ask{Name: fmt.Sprintf("hot%d.example.", i%40), Type: dns.TypeA, Want: "192.0.2.80"}
		switch {
		case i == 50:
			ask.Name, ask.Want = "n%d.slow.example.", "192.0.2.81"
		case i == 60:
			ask.TCP = true
		case i == 80:
			ask.Name, ask.TCP = "n%d.example.", true
		case i%10 == 1, i%10 == 4:
			ask.Name = "n%d.example."
		case i%10 == 2, i%10 == 6, i%10 == 9:
			ask.Name, ask.Want = "web.shop.svc.cluster.local.", MixedService
		case i%10 == 3:
			ask.Name, ask.Want = "nobody.shop.svc.cluster.local.", ""
		}
		asks = append(asks, ask)
	}
	return asks
}

// A Tally is the result of a Load.
type Tally struct {
	Asked   int
	Lost    int           // not answered within Patience
	Wrong   int           // answered differently than expected
	Faults  []string      // descriptions of the first lost and wrong ones
	Median  time.Duration // of the answers
	P99     time.Duration
	Worst   time.Duration
	Behind  time.Duration // maximum delay of a question against the schedule
	Dropped uint64        // answers that did not fit the Load's own sockets; included in Lost
}

// String returns everything in one line.
func (t Tally) String() string {
	return fmt.Sprintf("%d asked, %d lost (%d dropped here), %d wrong; median %v, p99 %v, worst %v; up to %v behind %s",
		t.Asked, t.Lost, t.Dropped, t.Wrong, t.Median, t.P99, t.Worst, t.Behind, strings.Join(t.Faults, "; "))
}

const (
	// stubPatience is the timeout of a stub resolver.
	stubPatience = 5 * time.Second
	// loadSockets is the default of Sockets.
	loadSockets = 8
	// maxFaults is the maximum number of Faults in a Tally.
	maxFaults = 10
)

// Loading is a running Load.
type Loading struct {
	load    Load
	clients []*loadClient
	stop    chan struct{}
	sending sync.WaitGroup
	tcp     sync.WaitGroup
	overTCP atomic.Int64 // questions over TCP without an answer
	reading sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	tally     Tally
	latencies []time.Duration
}

// Start begins to send questions.
func (l Load) Start() (*Loading, error) {
	l.Patience = cmp.Or(l.Patience, stubPatience)
	running := &Loading{load: l, stop: make(chan struct{})}
	sockets := l.Sockets
	if sockets == 0 {
		sockets = loadSockets
	}
	for i := range sockets {
		c, err := newLoadClient(l.Server, l.client(i))
		if err != nil {
			for _, c := range running.clients {
				c.conn.Close()
			}
			return nil, fmt.Errorf("opening a client's socket: %w", err)
		}
		running.clients = append(running.clients, c)
	}
	for _, c := range running.clients {
		running.reading.Go(func() { c.read(running) })
	}
	running.sending.Go(running.send)
	return running, nil
}

// client returns the source address of the nth question. If it is invalid, the kernel picks one.
func (l Load) client(n int) netip.Addr {
	if len(l.Clients) == 0 {
		return netip.Addr{}
	}
	return l.Clients[n%len(l.Clients)]
}

// Stop ends the questions, waits for the answers and returns the result.
func (r *Loading) Stop() Tally {
	close(r.stop)
	return r.Wait()
}

// Wait waits until Count questions have been sent, then does the same as Stop.
func (r *Loading) Wait() Tally {
	r.sending.Wait()
	deadline := time.Now().Add(r.load.Patience)
	for _, c := range r.clients {
		for c.waits() > 0 && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		r.tally.Dropped += c.drops()
		c.conn.Close()
	}
	r.reading.Wait()
	r.tcp.Wait()
	for _, c := range r.clients {
		for _, q := range c.waiting {
			r.lost(q, "no answer")
		}
	}
	slices.Sort(r.latencies)
	if n := len(r.latencies); n > 0 {
		r.tally.Median, r.tally.P99, r.tally.Worst = r.latencies[n/2], r.latencies[n*99/100], r.latencies[n-1]
	}
	return r.tally
}

// send sends each question at its time, and late ones at once.
func (r *Loading) send() {
	start, pace := time.Now(), time.Second/time.Duration(r.load.Rate)
	for n := 0; r.load.Count == 0 || n < r.load.Count; n++ {
		due := start.Add(time.Duration(n) * pace)
		if wait := time.Until(due); wait > 0 {
			select {
			case <-r.stop:
				return
			case <-time.After(wait):
			}
		}
		select {
		case <-r.stop:
			return
		default:
		}
		r.awaitWindow()
		q := newAsked(r.load.Asks[n%len(r.load.Asks)], n)
		q.client = r.load.client(n / len(r.load.Asks))
		r.mu.Lock()
		r.tally.Asked++
		r.tally.Behind = max(r.tally.Behind, q.at.Sub(due))
		r.mu.Unlock()
		if q.ask.TCP {
			r.startTCP(q)
		} else {
			r.clients[n%len(r.clients)].send(q)
		}
	}
}

// Unanswered returns the number of questions that have no answer yet.
func (r *Loading) Unanswered() int {
	n := int(r.overTCP.Load())
	for _, c := range r.clients {
		n += c.waits()
	}
	return n
}

// awaitWindow returns when another question may be sent.
func (r *Loading) awaitWindow() {
	const pause = 200 * time.Microsecond
	if r.load.Window == 0 {
		return
	}
	for deadline := time.Now().Add(stubPatience); time.Now().Before(deadline); time.Sleep(pause) {
		waiting := 0
		for _, c := range r.clients {
			waiting += c.waits()
		}
		if waiting < r.load.Window {
			return
		}
	}
}

// asked is one question in flight.
type asked struct {
	ask  Ask
	name string
	at   time.Time
	edns bool // for every second question

	client netip.Addr // used for TCP
}

func newAsked(ask Ask, n int) asked {
	name := ask.Name
	if strings.Contains(name, "%d") {
		name = fmt.Sprintf(name, n)
	}
	return asked{ask: ask, name: name, at: time.Now(), edns: n%2 == 0}
}

func (q asked) message(id uint16) []byte {
	m := new(dns.Msg).SetQuestion(q.name, q.ask.Type)
	m.Id = id
	if q.edns {
		m.SetEdns0(payload, false)
	}
	wire, err := m.Pack()
	if err != nil {
		panic(fmt.Sprintf("packing the question for %s: %v", q.name, err)) // the name is part of the test
	}
	return wire
}

// fault describes the difference between the response and the expected answer, or returns "".
func (q asked) fault(m *dns.Msg) string {
	question := dns.Question{Name: q.name, Qtype: q.ask.Type, Qclass: dns.ClassINET}
	data := ""
	if n := len(m.Answer); n > 0 {
		data = strings.TrimPrefix(m.Answer[n-1].String(), m.Answer[n-1].Header().String())
	}
	switch {
	case !m.Response || m.Truncated || len(m.Question) != 1 || m.Question[0] != question:
		return "no response to it: " + m.String()
	case q.ask.Want == "" && m.Rcode == dns.RcodeNameError && data == "":
		return ""
	case m.Rcode != dns.RcodeSuccess || q.ask.Want == "" || data != q.ask.Want:
		why := ""
		if opt := m.IsEdns0(); opt != nil {
			why = fmt.Sprint(opt.Option)
		}
		return fmt.Sprintf("%s %q %s", dns.RcodeToString[m.Rcode], data, why)
	}
	return ""
}

// answered counts an answer.
func (r *Loading) answered(q asked, wire []byte) {
	took := time.Since(q.at)
	m := new(dns.Msg)
	fault := ""
	if err := m.Unpack(wire); err != nil {
		fault, m = err.Error(), nil
	} else {
		fault = q.fault(m)
	}
	switch {
	case m != nil && m.Truncated && !q.ask.TCP:
		q.ask.TCP = true
		r.startTCP(q)
		return
	case fault == "" && took > r.load.Patience:
		r.lost(q, fmt.Sprintf("answered after %v", took))
		return
	}
	r.tell(Answer{Name: q.name, Asked: q.at, Took: took, Msg: m, Fault: fault})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latencies = append(r.latencies, took)
	if fault != "" {
		r.tally.Wrong++
		r.describeLocked(q, fault)
	}
}

func (r *Loading) tell(a Answer) {
	if r.load.Each != nil {
		r.load.Each(a)
	}
}

func (r *Loading) lost(q asked, why string) {
	r.tell(Answer{Name: q.name, Asked: q.at, Took: time.Since(q.at), Fault: why})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.Lost++
	r.describeLocked(q, why)
}

func (r *Loading) describeLocked(q asked, what string) {
	if len(r.tally.Faults) < maxFaults {
		r.tally.Faults = append(r.tally.Faults, fmt.Sprintf("%s %s (TCP %v) at %s: %s",
			q.name, dns.Type(q.ask.Type), q.ask.TCP, q.at.Format("15:04:05.000"), what))
	}
}
