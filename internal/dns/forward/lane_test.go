package forward

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// laneServer is a server whose queries go to f's lanes first.
type laneServer struct {
	f       *Forward
	addr    netip.AddrPort
	handled atomic.Int32 // queries that reached the Handler
	replies atomic.Int32
	late    atomic.Int32 // replies without a waiting query
	parsed  atomic.Int32 // replies that were parsed
	noStale atomic.Bool  // the Handler has no stale answers
}

func newLaneServer(t testing.TB, change func(*Config), servers ...nameserver.Server) *laneServer {
	t.Helper()
	return newTunedServer(t, change, func(*exchange.Dialer) {}, servers...)
}

// newTunedServer is newLaneServer with a change of the Dialer before the first query.
func newTunedServer(t testing.TB, change func(*Config), tune func(*exchange.Dialer), servers ...nameserver.Server) *laneServer {
	t.Helper()
	s := &laneServer{}
	s.f = newForward(t, func(c *Config) {
		c.Lanes = 2
		c.Answered = s.answered
		if change != nil {
			change(c)
		}
	}, servers...)
	tune(s.f.dialer)
	server := dnsserver.New(dnsserver.Config{
		Miss: func(l *dnsserver.PendingQuery) bool {
			l.Query().Mark = 8
			return s.f.Ask(l, 7, !s.noStale.Load())
		},
		Handler: dnsserver.HandlerFunc(func(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
			s.handled.Add(1)
			return s.f.ServeDNS(ctx, q)
		}),
	})
	if err := server.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Shutdown(context.Background()) })
	s.addr = server.Listeners()[0].Addr
	return s
}

// answered does what a cache does, without storing anything.
func (s *laneServer) answered(r Reply) {
	s.replies.Add(1)
	if r.Msg != nil {
		s.parsed.Add(1)
	}
	if len(r.Waiting) == 0 {
		s.late.Add(1)
	}
	for i, l := range r.Waiting {
		r.Waiting[i] = nil
		query, m := new(dns.Msg), parsed(r)
		if query.Unpack(l.Query().Msg) != nil || r.Query.Mark != 8 || r.Tag != 7 && r.Tag != 0 {
			l.Send(nil, nameserver.Handle{})
			continue
		}
		m.Id, m.Question = query.Id, query.Question
		m.RecursionDesired, m.CheckingDisabled = query.RecursionDesired, query.CheckingDisabled
		wire, _ := m.Pack()
		l.Send(wire, nameserver.Handle{})
	}
}

// parsed returns the message of a Reply.
func parsed(r Reply) *dns.Msg {
	if r.Msg != nil {
		return r.Msg.Copy()
	}
	m := new(dns.Msg)
	wire := slices.Clone(r.Wire.Message)
	wire[10], wire[11] = 0, 0
	if err := m.Unpack(wire); err != nil {
		panic(err)
	}
	return m
}

func (s *laneServer) exchange(t testing.TB, name string, qtype uint16, options ...dnstest.Option) string {
	t.Helper()
	m := dnstest.Exchange(t, s.addr, name, qtype, options...)
	text := dns.RcodeToString[m.Rcode]
	for _, rr := range m.Answer {
		text += " " + rr.String()
	}
	return text
}

// TestLane: one question causes one query to one server, and nothing else runs.
func TestLane(t *testing.T) {
	servers, addresses := startServers(t, 2)
	s := newLaneServer(t, patient, addresses...)
	for _, row := range []struct {
		name    string
		qtype   uint16
		options []dnstest.Option
		want    string
	}{
		{"www.example.", dns.TypeA, nil, "NOERROR www.example.\t300\tIN\tA\t192.0.2.80"},
		{"WWW.Example.", dns.TypeAAAA, nil, "NOERROR www.example.\t300\tIN\tAAAA\t2001:db8::80"},
		{"alias.example.", dns.TypeCNAME, []dnstest.Option{dnstest.EDNS(1232)}, "NOERROR alias.example.\t300\tIN\tCNAME\twww.example."},
		{"none.example.", dns.TypeA, []dnstest.Option{dnstest.DO()}, "NXDOMAIN"},
		{"www.example.", dns.TypeMX, nil, "NOERROR"},
	} {
		if got := s.exchange(t, row.name, row.qtype, row.options...); got != row.want {
			t.Errorf("%s %s: %s, expected %s", row.name, dns.TypeToString[row.qtype], got, row.want)
		}
	}
	if handled, replies := s.handled.Load(), s.replies.Load(); handled != 0 || replies != 5 {
		t.Errorf("the Handler got %d queries, the lanes %d", handled, replies)
	}
	// The sender may count after the answer has arrived.
	await(t, "all are counted", func() bool { return stateOf(s.f, addresses[0]).Queries == 5 })
	if status := stateOf(s.f, addresses[0]); status.State != exchange.Up || status.NXDomain != 1 {
		t.Errorf("got server status %+v", status)
	}
	if n := servers[1].Queries(); n != 0 {
		t.Errorf("got %d queries to the second server", n)
	}
}

// TestLaneLikeHandler: whatever a server does, the client gets the same result with lanes and
// without, and no server is queried more often.
func TestLaneLikeHandler(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string]dnstest.Faults{
		"silence":              {Drop: true},
		"one silence":          {Drop: true, First: 1},
		"SERVFAIL":             {Rcode: dns.RcodeServerFailure},
		"REFUSED":              {Rcode: dns.RcodeRefused},
		"wrong ID, then right": {WrongID: true, Copies: 3, ThenOK: true},
		"wrong question":       {WrongQuestion: true, Copies: 2, ThenOK: true},
		"no question":          {NoQuestion: true, ThenOK: true},
		"wrong source":         {WrongSource: true, ThenOK: true},
		"garbage":              {Garbage: true, ThenOK: true},
		"only garbage":         {Garbage: true},
		"truncated":            {Truncate: true},
		"FORMERR to EDNS":      {FormErrOnEDNS: true},
		"bare NOTIMP to EDNS":  {NotImpOnEDNS: true, NoQuestion: true},
		"cut":                  {CutUDP: true, ThenOK: true},
		"extra records":        {ExtraRR: "strange.example. 300 IN A 192.0.2.66"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replyWith := func(lanes int) (text string, first, second int) {
				servers, addresses := startServers(t, 2)
				servers[0].SetFaults(faults)
				s := newLaneServer(t, func(c *Config) {
					if isSilent := faults.Drop || faults.Garbage && !faults.ThenOK; !isSilent {
						patient(c)
					}
					c.Lanes = lanes
				}, addresses...)
				text = s.exchange(t, "www.example.", dns.TypeA)
				return text, asked(servers[0]), asked(servers[1])
			}
			want, wantFirst, wantSecond := replyWith(0)
			got, first, second := replyWith(2)
			// If the right response follows an invalid one, the second server may or may not be
			// asked.
			if got != want || first > wantFirst || second > max(wantSecond, 1) {
				t.Errorf("with lanes %q, asked %d and %d times; without %q, %d and %d", got, first, second, want, wantFirst, wantSecond)
			}
		})
	}
}

// asked returns how often a server was queried for www.example.; checks ask for the root.
func asked(s *dnstest.Server) (n int) {
	for _, seen := range s.Received() {
		if seen.Msg.Question[0].Name == "www.example." {
			n++
		}
	}
	return n
}

// TestLanePorts: each question has its own unpredictable port, even on a reused socket, until a
// busy lane has enough of them to draw from.
func TestLanePorts(t *testing.T) {
	servers, addresses := startServers(t, 2)
	s := newLaneServer(t, func(c *Config) {
		patient(c)
		c.Lanes = 1
		c.Routes = append(c.Routes, Route{Domain: dnsname.MustParse("b."), Servers: addresses[1:]})
	}, addresses[0])
	const questions = 300
	for i := range questions {
		s.exchange(t, fmt.Sprintf("n%d.%c.", i, 'a'+i%2), dns.TypeA)
	}
	var ports []uint16
	distinct, near := map[uint16]bool{}, 0
	for _, server := range servers {
		var before uint16
		for _, seen := range server.Received() {
			port := seen.Client.Port()
			ports, distinct[port] = append(ports, port), true
			if port-before < 16 || before-port < 16 {
				near++
			}
			before = port
		}
	}
	if uses := mostUses(ports); len(distinct) < minPool*9/10 || uses > 2*portUses || near > questions/20 {
		t.Errorf("%d questions came from %d ports, %d of them from one, and %d close to the previous one", questions, len(distinct), uses, near)
	}
	lane := (*s.f.lanes.Load())[0]
	lane.mu.Lock()
	defer lane.mu.Unlock()
	if open := len(lane.slots); open > minPool+2 {
		t.Errorf("%d sockets were opened, although only one question was in flight at a time", open)
	}
}

// TestLaneJoins: identical questions are sent once.
func TestLaneJoins(t *testing.T) {
	servers, addresses := startServers(t, 1)
	servers[0].SetFaults(dnstest.Faults{Delay: 100 * time.Millisecond})
	s := newLaneServer(t, patient, addresses...)
	var clients sync.WaitGroup
	for i := range 20 {
		clients.Go(func() {
			name := "www.example."
			if i%2 == 0 {
				name = "WwW.eXample."
			}
			if got := s.exchange(t, name, dns.TypeA); got != "NOERROR www.example.\t300\tIN\tA\t192.0.2.80" {
				t.Error(got)
			}
		})
	}
	clients.Wait()
	if n := servers[0].Queries(); n >= 20 {
		t.Errorf("got %d queries from 20 clients", n)
	}
	if joined := s.f.Stats().Joined; joined == 0 {
		t.Error("no query joined")
	}
}

// TestLaneShed: above the maximum number of questions, the Handler decides.
func TestLaneShed(t *testing.T) {
	servers, addresses := startServers(t, 1)
	servers[0].SetFaults(dnstest.Faults{Drop: true})
	s := newLaneServer(t, func(c *Config) { patient(c); c.MaxInFlight = 1 }, addresses...)
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		s.exchange(t, "first.example.", dns.TypeA)
	}()
	await(t, "the first question is asked", func() bool { return s.f.flights.n.Load() == 1 })
	if got := s.exchange(t, "second.example.", dns.TypeA); got != "SERVFAIL" || s.f.Stats().Shed != 1 {
		t.Errorf("%s, shed %d", got, s.f.Stats().Shed)
	}
	s.f.Close()
	<-waiting
	if n := s.f.flights.n.Load(); n != 0 {
		t.Errorf("%d questions still in flight", n)
	}
}

// TestLaneBusy: many questions, some of them lost, all end while the watcher waits in the kernel.
func TestLaneBusy(t *testing.T) {
	t.Parallel()
	servers, addresses := startServers(t, 1)
	if !testing.Short() { // the socket of a lost query stays open until the deadline
		servers[0].SetFaults(dnstest.Faults{Loss: 0.02})
	}
	s := newLaneServer(t, persistent, addresses...)
	var clients sync.WaitGroup
	for c := range 8 {
		clients.Go(func() {
			for i := range 200 {
				if got := s.exchange(t, fmt.Sprintf("n%d-%d.example.", c, i), dns.TypeA); got != "NXDOMAIN" {
					t.Error(got)
				}
			}
		})
	}
	clients.Wait()
	if n := s.f.flights.n.Load(); n != 0 {
		t.Errorf("%d questions still in flight", n)
	}
	for _, n := range *s.f.lanes.Load() {
		await(t, "the lane has let go of all", func() bool { // the sender may do so after the answer
			n.mu.Lock()
			defer n.mu.Unlock()
			return len(n.timers) == 0 && n.order == line{} && n.asked == [chains]*flight{} && len(n.free)+len(n.idle[0])+len(n.idle[1]) == len(n.slots)
		})
	}
}

// FuzzKey: a key holds the same as the parsed query.
func FuzzKey(f *testing.F) {
	for _, q := range []*dns.Msg{
		new(dns.Msg).SetQuestion("WWW.Example.", dns.TypeA),
		new(dns.Msg).SetQuestion(".", dns.TypeNS).SetEdns0(1232, true),
		new(dns.Msg).SetQuestion("_http._tcp.a-b.example.", dns.TypeSRV).SetEdns0(512, false),
		new(dns.Msg).SetQuestion(`a\.b\000.example.`, dns.TypeTXT),
	} {
		q.CheckingDisabled = true
		wire, err := q.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, query []byte) {
		m := new(dns.Msg)
		if m.Unpack(query) != nil || len(m.Question) != 1 || len(m.Answer)+len(m.Ns) > 0 || m.Question[0].Qclass != dns.ClassINET ||
			len(m.Extra) > 1 || len(m.Extra) == 1 && m.IsEdns0() == nil || m.Response {
			return // dnsserver rejects it
		}
		end := exchange.QuestionEnd(query)
		if end > len(query) || len(m.Extra) == 1 && query[end] != 0 || len(m.Extra) == 0 && len(query) != end {
			return
		}
		key, ok := exchange.AppendKey(nil, query)
		if !ok {
			return
		}
		q := clientQuery(m.Question[0].Name, m.Question[0].Qtype)
		q.Msg = m
		asked := questionOf(q)
		if text := string(key.AppendName(nil)); text != asked.Name {
			t.Errorf("the name is %q, expected %q", text, asked.Name)
		}
		want, err := wireOf(asked, exchange.WithEDNS)
		if err != nil {
			t.Fatal(err)
		}
		got := exchange.AppendQuery(nil, 0, key, exchange.WithEDNS, 1232)
		if string(got) != string(want) {
			t.Errorf("got query\n%x, want\n%x", got, want)
		}
	})
}

// TestLaneUnsent: no socket leaks if no query can be sent and therefore no response arrives.
func TestLaneUnsent(t *testing.T) {
	held, err := net.ListenUDP("udp4", &net.UDPAddr{})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	_, addresses := startServers(t, 1)
	port := held.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	s := newLaneServer(t, func(c *Config) { c.UDP = exchange.UDP{Low: port, High: port} }, addresses...)
	for i := range 2 {
		if got := s.exchange(t, fmt.Sprintf("n%d.example.", i), dns.TypeA); got != "SERVFAIL" {
			t.Errorf("the client got %s", got)
		}
	}
	sockets := func() (n int) {
		for _, lane := range *s.f.lanes.Load() {
			lane.mu.Lock()
			n += len(lane.slots) - len(lane.free)
			lane.mu.Unlock()
		}
		return n
	}
	for deadline := time.Now().Add(10 * time.Second); sockets() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d sockets leaked from questions that were never sent", sockets())
		}
	}
}

// TestTriedTwice: several queries may share the result of a lane, so ServeDNS must not change it.
func TestTriedTwice(t *testing.T) {
	_, addresses := startServers(t, 1)
	f := newForward(t, patient, addresses...)
	said := new(dns.Msg).SetQuestion("www.example.", dns.TypeA)
	said.Response, said.Rcode = true, dns.RcodeRefused
	tried := &dnsserver.UpstreamResult{Server: addresses[0], Msg: said}
	for range 2 {
		q := clientQuery("www.example.", dns.TypeA)
		q.Tried = tried
		switch m, err := f.ServeDNS(context.Background(), q); {
		case err != nil || m.Rcode != dns.RcodeRefused:
			t.Errorf("%v, %v", m, err)
		case m == said:
			t.Error("two queries got the same message value")
		}
	}
}

// TestLanesCannotBeChosen: each process maps questions to lanes differently. Without a hash seed, a
// client could put all its questions into one lane.
func TestLanesCannotBeChosen(t *testing.T) {
	one, other := New(Config{Lanes: 4}), New(Config{Lanes: 4})
	defer one.Close()
	defer other.Close()
	same := 0
	for i := range 64 {
		key := fmt.Appendf(nil, "%d", i)
		if laneAt(t, one, key) == laneAt(t, other, key) {
			same++
		}
		if first, again := laneAt(t, one, key), laneAt(t, one, key); first != again {
			t.Error("the same question got two lanes")
		}
	}
	if same == 64 {
		t.Error("two Forwards choose the same lanes")
	}
}

// laneAt returns the lane index of a question.
func laneAt(t *testing.T, f *Forward, key []byte) int {
	t.Helper()
	n, _, err := f.laneOf(key)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Index(*f.lanes.Load(), n)
}

// TestCallerLeaves: a query that joined the question of a caller gets its answer even if the
// caller gives up first. It used to wait forever, and kept its place in the server.
func TestCallerLeaves(t *testing.T) {
	upstream := newGate(t)
	s := newLaneServer(t, patient, upstream.address)
	ctx, cancel := context.WithCancel(t.Context())
	var caller, client sync.WaitGroup
	caller.Go(func() { _, _ = s.f.ServeDNS(ctx, clientQuery("www.example.", dns.TypeA)) })
	await(t, "the question is sent", func() bool { return upstream.asked.Load() == 1 })
	got := ""
	client.Go(func() { got = s.exchange(t, "www.example.", dns.TypeA) })
	await(t, "the client has joined", func() bool { return s.f.counts.joined.Load() == 1 })
	cancel()
	caller.Wait()
	upstream.open()
	client.Wait()
	if want := "NOERROR www.example.\t300\tIN\tA\t192.0.2.80"; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	if n := upstream.asked.Load(); n != 1 {
		t.Errorf("%d queries, expected 1", n)
	}
}

// TestCallersShare: callers of one question share its answer until each of them runs. A pod made
// 5,000 copies of 64 KiB at once with a slow name, which took 2 GB. What the receiver of the Reply
// does with the answer does not affect them.
func TestCallersShare(t *testing.T) {
	upstream := newGate(t)
	s := newLaneServer(t, func(c *Config) {
		patient(c)
		answered := c.Answered
		c.Answered = func(r Reply) {
			for _, rr := range r.Msg.Answer {
				rr.Header().Ttl = 0
			}
			answered(r)
		}
	}, upstream.address)
	k, err := exchange.Question{Name: "www.example.", Type: dns.TypeA, Class: dns.ClassINET, RD: true}.AppendKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	lane, hash, err := s.f.laneOf(k)
	if err != nil {
		t.Fatal(err)
	}
	table := s.f.table.Load()
	var callers [2]*caller
	for i := range callers {
		callers[i] = &caller{done: make(chan struct{})}
		if err := lane.join(k, hash, flightParams{table: table, route: table.order[0], now: time.Now()}, waiter{caller: callers[i]}); err != nil {
			t.Fatal(err)
		}
	}
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			m, err := s.f.ServeDNS(t.Context(), clientQuery("www.example.", dns.TypeA))
			if <-callers[0].done; err != nil || m == callers[0].msg || m.Answer[0].Header().Ttl != 300 {
				t.Errorf("%v\n%v", err, m)
			}
		})
	}
	others.Go(func() { s.exchange(t, "www.example.", dns.TypeA) })
	await(t, "all have joined", func() bool { return s.f.counts.joined.Load() == 4 })
	upstream.open()
	others.Wait()
	for _, g := range callers {
		<-g.done
	}
	if callers[0].msg != callers[1].msg {
		t.Error("each caller got a copy")
	}
}

// TestCallersOverUDP: of the callers of one question, the first one gets a long answer whole, for
// the cache, and so do those over TCP. The others get what may fit in a datagram, with TC.
func TestCallersOverUDP(t *testing.T) {
	servers, addresses := startServers(t, 1)
	records := ""
	for i := range 400 {
		records += fmt.Sprintf("big.example. 300 IN A 192.0.%d.%d\n", 2+i/200, i%200)
	}
	servers[0].SetRecords(records)
	servers[0].SetFaults(dnstest.Faults{Delay: 100 * time.Millisecond})
	f := newForward(t, patient, addresses...)
	k, err := exchange.Question{Name: "big.example.", Type: dns.TypeA, Class: dns.ClassINET, RD: true}.AppendKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	lane, hash, err := f.laneOf(k)
	if err != nil {
		t.Fatal(err)
	}
	table := f.table.Load()
	var callers [4]*caller
	for i := range callers {
		callers[i] = &caller{isUDP: i != 2, done: make(chan struct{})}
		if err := lane.join(k, hash, flightParams{table: table, route: table.order[0], now: time.Now()}, waiter{caller: callers[i]}); err != nil {
			t.Fatal(err)
		}
	}
	for i, g := range callers {
		<-g.done
		isShort := i == 1 || i == 3
		if g.err != nil || g.msg.Truncated != isShort || isShort != (len(g.msg.Answer) < 400) || len(g.msg.Answer) < 50 {
			t.Errorf("%d: %v, %d records", i, g.err, len(g.msg.Answer))
		}
	}
}
