package cache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// errNoResponse is the forwarder's error when no server answers.
var errNoResponse = &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeNoReachableAuthority, Text: "no response"}

// outage is an upstream that can go down.
type outage struct {
	upstream
	isUnreachable atomic.Bool // also read by other goroutines
	isDown        bool
	slow          time.Duration
	fails         int // RCODE instead of the answer; 0 means none
}

func (o *outage) ServeDNS(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	if o.isDown {
		o.asked++
		time.Sleep(1500 * time.Millisecond)
		return nil, errNoResponse
	}
	time.Sleep(o.slow)
	m, err := o.upstream.ServeDNS(ctx, q)
	if o.fails != 0 {
		m.Rcode, m.Answer = o.fails, nil
	}
	return m, err
}

// known begins an outage that is known.
func (o *outage) known() {
	o.isDown = true
	o.isUnreachable.Store(true)
}

// unreachable implements Config.Unreachable. The outage is known from the start or not at all.
func (o *outage) unreachable(dnsname.Name) <-chan struct{} {
	known := make(chan struct{})
	if o.isUnreachable.Load() {
		close(known)
	}
	return known
}

func newOutage(t *testing.T) *outage {
	return &outage{upstream: upstream{t: t, records: map[string]string{"www.example. A": "www.example. 10 IN A 192.0.2.1"}}}
}

// told returns a client's response and the time it took.
func told(t *testing.T, c *Cache, q *dnsserver.Query) string {
	t.Helper()
	begun := time.Now()
	m, err := c.ServeDNS(t.Context(), q)
	took := time.Since(begun).String()
	var why *dnsserver.ExtendedError
	if errors.As(err, &why) {
		return fmt.Sprintf("EDE %d after %s", why.Code, took)
	}
	text := dns.RcodeToString[m.Rcode]
	for _, rr := range m.Answer {
		text += fmt.Sprintf(" %s for %d s", rr.(*dns.A).A, rr.Header().Ttl)
	}
	if opt := m.IsEdns0(); opt != nil {
		text += fmt.Sprintf(" EDE %d", opt.Option[0].(*dns.EDNS0_EDE).InfoCode)
	}
	return text + " after " + took
}

// TestOutage: an expired response is refreshed first. It is served if no server answers in time, or
// at once if the outage is known.
func TestOutage(t *testing.T) {
	www := func() *dnsserver.Query { return query("www.example.", dns.TypeA, flags{}) }
	for _, row := range []struct {
		name  string
		fault func(o *outage)
		query func(q *dnsserver.Query)
		want  string
		asked int // including background queries
	}{
		{"no fault", func(o *outage) {}, nil, "NOERROR 192.0.2.1 for 10 s after 0s", 1},
		{"answer after 400 ms", func(o *outage) { o.slow = 400 * time.Millisecond }, nil, "NOERROR 192.0.2.1 for 10 s after 400ms", 1},
		{"answer after 1 s", func(o *outage) { o.slow = time.Second }, nil, "NOERROR 192.0.2.1 for 30 s EDE 3 after 500ms", 1},
		{"no response", func(o *outage) { o.isDown = true }, nil, "NOERROR 192.0.2.1 for 30 s EDE 3 after 500ms", 1},
		{"known to be down", (*outage).known, nil, "NOERROR 192.0.2.1 for 30 s EDE 3 after 0s", 1},
		{"SERVFAIL", func(o *outage) { o.fails = dns.RcodeServerFailure }, nil, "NOERROR 192.0.2.1 for 30 s EDE 3 after 0s", 1},
		{"REFUSED", func(o *outage) { o.fails = dns.RcodeRefused }, nil, "NOERROR 192.0.2.1 for 30 s EDE 3 after 0s", 1},
		{"NXDOMAIN", func(o *outage) { o.fails = dns.RcodeNameError }, nil, "NXDOMAIN after 0s", 1},
		{"lane knows that no server responds", func(o *outage) { o.isDown = true }, func(q *dnsserver.Query) { q.Tried = &dnsserver.UpstreamResult{Err: errNoResponse} }, "NOERROR 192.0.2.1 for 30 s EDE 3 after 0s", 1},
		{"lane has waited", func(o *outage) { o.isDown = true }, func(q *dnsserver.Query) { q.Tried = &dnsserver.UpstreamResult{} }, "NOERROR 192.0.2.1 for 30 s EDE 3 after 0s", 1},
		{"lane has an answer", func(o *outage) {}, func(q *dnsserver.Query) { q.Tried = &dnsserver.UpstreamResult{Msg: new(dns.Msg)} }, "NOERROR 192.0.2.1 for 10 s after 0s", 1},
		{"lane has an NXDOMAIN", func(o *outage) { o.fails = dns.RcodeNameError }, func(q *dnsserver.Query) {
			q.Tried = &dnsserver.UpstreamResult{Msg: &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeNameError}}}
		}, "NXDOMAIN after 0s", 1},
		{"lane has a refusal", func(o *outage) { o.fails = dns.RcodeRefused }, func(q *dnsserver.Query) {
			q.Tried = &dnsserver.UpstreamResult{Msg: &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeRefused}}}
		}, "NOERROR 192.0.2.1 for 30 s EDE 3 after 0s", 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutage(t)
				c := New(Config{Next: o, Size: 10, Stale: time.Minute, Unreachable: o.unreachable})
				told(t, c, www())
				time.Sleep(11 * time.Second)
				row.fault(o)
				q := www()
				if row.query != nil {
					row.query(q)
				}
				if got := told(t, c, q); got != row.want {
					t.Errorf("got %s, want %s", got, row.want)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if o.asked != 1+row.asked {
					t.Errorf("got %d upstream queries", o.asked)
				}
			})
		})
	}
}

// TestManyWait: however many clients wait for a new response to one question, one goroutine waits
// beyond them, for the late one. One for each would outlive its client by 4.5 s.
func TestManyWait(t *testing.T) {
	for slow, want := range map[time.Duration]string{
		400 * time.Millisecond: "NOERROR 192.0.2.1 for 10 s after 400ms",
		3 * time.Second:        "NOERROR 192.0.2.1 for 30 s EDE 3 after 500ms",
	} {
		synctest.Test(t, func(t *testing.T) {
			o := newOutage(t)
			var started atomic.Int32
			next := dnsserver.HandlerFunc(func(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
				select {
				case <-time.After(o.slow):
					return (&upstream{t: t, records: o.records}).ServeDNS(ctx, q)
				case <-ctx.Done():
					return nil, &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeNoReachableAuthority, Err: ctx.Err()}
				}
			})
			c := New(Config{Next: next, Size: 10, Stale: time.Minute, Unreachable: o.unreachable, Go: func(f func()) {
				started.Add(1)
				go f()
			}})
			www := func() *dnsserver.Query { return query("www.example.", dns.TypeA, flags{}) }
			told(t, c, www())
			time.Sleep(11 * time.Second)
			o.slow = slow
			var clients sync.WaitGroup
			for range 100 {
				clients.Go(func() {
					if got := told(t, c, www()); got != want {
						t.Errorf("got %s, want %s", got, want)
					}
				})
			}
			clients.Wait()
			if n := started.Load(); n != 1 {
				t.Errorf("%d goroutines were started", n)
			}
			time.Sleep(5 * time.Second)
			if got, want := told(t, c, www()), "NOERROR 192.0.2.1"; !strings.HasPrefix(got, want) || strings.Contains(got, "EDE") {
				t.Errorf("later: %s", got)
			}
		})
	}
}

// TestStaleNXDOMAIN: a stale NXDOMAIN is served too.
func TestStaleNXDOMAIN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		o.rcode, o.records = dns.RcodeNameError, map[string]string{"no.example. A": "authority\nexample. 10 IN SOA ns.example. h.example. 1 2 3 4 10"}
		c := New(Config{Next: o, Size: 10, Stale: time.Minute, Unreachable: o.unreachable})
		no := func() *dnsserver.Query { return query("no.example.", dns.TypeA, flags{}) }
		told(t, c, no())
		time.Sleep(11 * time.Second)
		o.known()
		if got, want := told(t, c, no()), "NXDOMAIN EDE 19 after 0s"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		time.Sleep(5 * time.Second)
	})
}

// TestOutageIsBounded: during a known outage, refreshes run as MayProbe allows, regardless of the
// names, and at most one per name at a time. The first answer reaches the client.
func TestOutageIsBounded(t *testing.T) {
	for _, row := range []struct {
		name  string
		names int
		asked int // in 10 s
	}{
		{"one name", 1, 7}, // each attempt takes 1.5 s
		{"many names", 50, 20},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutage(t)
				var next time.Time
				c := New(Config{Next: o, Size: 100, Stale: time.Minute, Unreachable: o.unreachable, MayProbe: func(dnsname.Name) bool {
					if o.isUnreachable.Load() && time.Now().Before(next) {
						return false
					}
					next = time.Now().Add(500 * time.Millisecond)
					return true
				}})
				for i := range row.names {
					o.records[fmt.Sprintf("n%d.example. A", i)] = fmt.Sprintf("n%d.example. 10 IN A 192.0.2.1", i)
				}
				ask := func(i int) string { return told(t, c, query(fmt.Sprintf("n%d.example.", i), dns.TypeA, flags{})) }
				for i := range row.names {
					ask(i)
				}
				time.Sleep(11 * time.Second)
				o.asked = 0
				o.known()
				for i := range 1000 {
					if got := ask(i % row.names); got != "NOERROR 192.0.2.1 for 30 s EDE 3 after 0s" {
						t.Fatal(got)
					}
					time.Sleep(10 * time.Millisecond)
					synctest.Wait()
				}
				if o.asked < row.asked-1 || o.asked > row.asked {
					t.Errorf("asked %d times in 10 s, want %d", o.asked, row.asked)
				}
				o.isDown = false
				o.isUnreachable.Store(false)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if got := ask(0); got != "NOERROR 192.0.2.1 for 10 s after 0s" {
					t.Errorf("after the outage: got %s", got)
				}
			})
		})
	}
}

// TestOutageBecomesKnown: a waiting client gets the stale answer as soon as the outage is known.
func TestOutageBecomesKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, known := newOutage(t), make(chan struct{})
		c := New(Config{
			Next: o, Size: 10, Stale: time.Minute, Unreachable: func(dnsname.Name) <-chan struct{} { return known },
			MayProbe: func(dnsname.Name) bool { return false },
		})
		www := func() string { return told(t, c, query("www.example.", dns.TypeA, flags{})) }
		www()
		time.Sleep(11 * time.Second)
		o.isDown = true
		time.AfterFunc(40*time.Millisecond, func() { close(known) })
		for _, want := range []string{"40ms", "0s"} {
			if got := www(); got != "NOERROR 192.0.2.1 for 30 s EDE 3 after "+want {
				t.Errorf("got %s, want an answer after %s", got, want)
			}
		}
		time.Sleep(5 * time.Second)
	})
}

// TestFailures: a failed question is cached for 1 s to 5 s, in wire format too, and for no longer
// than 1 s if no server answered. An answer ends that.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		c := New(Config{Next: o, Size: 10, Stale: time.Minute})
		q := query("www.example.", dns.TypeA, flags{do: true})
		asked := func(d time.Duration) (n int) {
			n = o.asked
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				if m, err := c.ServeDNS(t.Context(), q); err == nil && m.Rcode == dns.RcodeSuccess {
					t.Errorf("got an answer: %v", m)
				}
			}
			return o.asked - n
		}
		o.fails = dns.RcodeServerFailure
		if n := asked(22 * time.Second); n != 6 { // at 0, 1, 3, 7, 12, 17 s
			t.Errorf("got %d upstream queries during 22 s of SERVFAIL, want 6", n)
		}
		told(t, c, q)
		response, ok := c.AppendResponse(nil, onWire(t, q), 0)
		m := new(dns.Msg)
		if err := m.Unpack(response); !ok || err != nil || m.Rcode != dns.RcodeServerFailure || m.IsEdns0() == nil ||
			m.IsEdns0().Option[0].(*dns.EDNS0_EDE).InfoCode != dns.ExtendedErrorCodeCachedError {
			t.Errorf("in wire format: got %v, error %v", m, err)
		}
		time.Sleep(time.Minute)
		o.fails, o.isDown = 0, true
		if n := asked(10 * time.Second); n != 4 { // each takes 1.5 s and is cached for 1 s
			t.Errorf("got %d queries to a silent server in 10 s, want 4", n)
		}
		o.isDown = false
		time.Sleep(time.Second)
		if got := told(t, c, q); got != "NOERROR 192.0.2.1 for 10 s after 0s" {
			t.Errorf("after the outage: got %s", got)
		}
	})
}

// TestFailuresTakeNoRoom: while unknown names fail, nearly all stale responses stay. Of 1,200
// responses, 100 were left after a minute of an outage.
func TestFailuresTakeNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, share = 800, 800/failureShare + 1
		o := &outage{upstream: upstream{t: t, records: map[string]string{}}}
		c := New(Config{Next: o, Size: size, Stale: time.Hour})
		for i := range size {
			o.records[fmt.Sprintf("n%d.example. A", i)] = fmt.Sprintf("n%d.example. 10 IN A 192.0.2.1", i)
			ask(t, c, query(fmt.Sprintf("n%d.example.", i), dns.TypeA, flags{}))
		}
		time.Sleep(11 * time.Second)
		known := func() (n int) {
			for i := range size {
				k := mustKey(t, fmt.Sprintf("n%d.example.", i))
				if c.store.find(k, c.store.hash(k)) != nil {
					n++
				}
			}
			return n
		}
		o.fails = dns.RcodeServerFailure
		for _, pause := range []time.Duration{0, 20 * time.Millisecond} { // all at once, and 50 per second
			for i := range 3 * size {
				ask(t, c, query(fmt.Sprintf("%s-f%d.example.", pause, i), dns.TypeA, flags{}))
				time.Sleep(pause)
			}
			if s, left := c.Stats(), known(); left < size-share || s.Entries != size || s.Denials > share {
				t.Errorf("with a failure every %s: %d responses remain, %d entries, %d of them failures", pause, left, s.Entries, s.Denials)
			}
		}
		o.fails = 0
		time.Sleep(time.Minute)
		before, failures := known(), c.Stats().Denials
		for i := range failures {
			o.records[fmt.Sprintf("new%d.example. A", i)] = "new.example. 10 IN A 192.0.2.1"
			ask(t, c, query(fmt.Sprintf("new%d.example.", i), dns.TypeA, flags{}))
		}
		if s := c.Stats(); known() != before || s.Denials != 0 || failures == 0 {
			t.Errorf("%d new responses replaced %d others and left %d expired failures", failures, before-known(), s.Denials)
		}
	})
}

// TestFailuresGiveRoom: failures that used free places give way to responses.
func TestFailuresGiveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 80
		o := &outage{upstream: upstream{t: t, records: map[string]string{}}, fails: dns.RcodeServerFailure}
		c := New(Config{Next: o, Size: size})
		for i := range size {
			ask(t, c, query(fmt.Sprintf("f%d.example.", i), dns.TypeA, flags{}))
		}
		o.fails = 0
		for i := range size {
			o.records[fmt.Sprintf("n%d.example. A", i)] = "new.example. 10 IN A 192.0.2.1"
			ask(t, c, query(fmt.Sprintf("n%d.example.", i), dns.TypeA, flags{}))
		}
		if s := c.Stats(); s.Entries != size || s.Denials > size/failureShare {
			t.Errorf("got %d entries, %d of them failures", s.Entries, s.Denials)
		}
	})
}

// TestFailuresNotRemembered: errors that say nothing about the question, and errors for names with
// a limit (those of the cluster), are not cached.
func TestFailuresNotRemembered(t *testing.T) {
	shed := &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeOther, Text: "too many"}
	left := &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeNoReachableAuthority, Err: context.DeadlineExceeded}
	for name, row := range map[string]struct {
		err   error
		limit time.Duration
		noRD  bool
	}{
		"too many queries in flight": {err: shed},
		"client gave up":             {err: left},
		"cluster name":               {err: errNoResponse, limit: 5 * time.Second},
		"a query without RD":         {err: errNoResponse, noRD: true},
		"other error":                {err: errors.New("no")},
	} {
		asked := 0
		c := New(Config{Size: 10, Limit: func(dnsname.Name) time.Duration { return row.limit }, Next: dnsserver.HandlerFunc(func(context.Context, *dnsserver.Query) (*dns.Msg, error) {
			asked++
			return nil, row.err
		})})
		for range 2 {
			_, _ = c.ServeDNS(t.Context(), query("www.example.", dns.TypeA, flags{noRD: row.noRD}))
		}
		if asked != 2 {
			t.Errorf("%s: got %d upstream queries", name, asked)
		}
	}
}

// TestPrefetch: a name in use is refreshed in the last tenth of its lifetime, once, in the
// background. A name that is not in use or belongs to the cluster is not; a failing one is not
// retried again and again.
func TestPrefetch(t *testing.T) {
	limited := func(dnsname.Name) time.Duration { return time.Minute }
	for _, row := range []struct {
		name   string
		config Config
		before []int // the seconds, out of 10, at which it is queried
		isDown bool
		asked  int
		end    string // what the client gets 3 s after the end of the first response
	}{
		{"in use", Config{Prefetch: true}, []int{1, 5, 9, 9, 9}, false, 2, "NOERROR 192.0.2.1 for 7 s after 0s"},
		{"in use, last tenth only", Config{Prefetch: true}, []int{9}, false, 1, "NOERROR 192.0.2.1 for 10 s after 0s"},
		{"in use before", Config{Prefetch: true}, []int{1, 8}, false, 1, "NOERROR 192.0.2.1 for 10 s after 0s"},
		{"prefetch off", Config{}, []int{1, 5, 9, 9}, false, 1, "NOERROR 192.0.2.1 for 10 s after 0s"},
		{"cluster name", Config{Prefetch: true, Limit: limited}, []int{1, 5, 9, 9}, false, 1, "NOERROR 192.0.2.1 for 10 s after 0s"},
		{"no response", Config{Prefetch: true}, []int{1, 5, 9, 9, 9, 9}, true, 2, ""},
	} {
		for _, byWire := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, wire %v", row.name, byWire), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := newOutage(t)
					config := row.config
					config.Next, config.Size = o, 10
					c, begun := New(config), time.Now()
					www := func() *dnsserver.Query { return query("www.example.", dns.TypeA, flags{}) }
					told(t, c, www())
					o.isDown = row.isDown
					for _, at := range row.before {
						time.Sleep(time.Until(begun.Add(time.Duration(at)*time.Second + time.Millisecond)))
						if byWire {
							if _, ok := c.AppendResponse(nil, onWire(t, www()), 0); !ok {
								t.Errorf("at %d s: not from the cache", at)
							}
						} else if got, want := told(t, c, www()), fmt.Sprintf("NOERROR 192.0.2.1 for %d s after 0s", 10-at); !byWire && got != want && at < 9 {
							t.Errorf("at %d s: %s", at, got)
						}
						if at < 9 {
							synctest.Wait()
						}
					}
					synctest.Wait()
					time.Sleep(time.Until(begun.Add(13 * time.Second)))
					if o.asked != row.asked {
						t.Errorf("asked %d times, want %d", o.asked, row.asked)
					}
					if s := c.Stats(); s.Prefetched != uint64(row.asked-1) {
						t.Errorf("got stats %+v", s)
					}
					if row.end != "" {
						if got := told(t, c, www()); got != row.end {
							t.Errorf("in the end %s, want %s", got, row.end)
						}
					}
				})
			})
		}
	}
}

// TestStaleMakesRoom: expired entries are evicted before live ones, unless they are in use. Memory
// stays bounded.
func TestStaleMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outage{upstream: upstream{t: t, records: map[string]string{}}}
		const size = 50
		for i := range 10 * size {
			o.records[fmt.Sprintf("n%d.example. A", i)] = fmt.Sprintf("n%d.example. 10 IN A 192.0.2.1", i)
		}
		c := New(Config{Next: o, Size: size, Stale: time.Hour})
		hot := func() string { return told(t, c, query("n0.example.", dns.TypeA, flags{})) }
		hot()
		hot()
		time.Sleep(11 * time.Second)
		for i := 1; i < 10*size; i++ {
			ask(t, c, query(fmt.Sprintf("n%d.example.", i), dns.TypeA, flags{}))
			if i%20 == 0 { // use an expired entry
				o.isDown = true
				c.store.get(mustKey(t, "n0.example."))
				o.isDown = false
			}
		}
		if s := c.Stats(); s.Entries != size {
			t.Errorf("%d entries", s.Entries)
		}
		o.isDown = true
		if got := hot(); got != "NOERROR 192.0.2.1 for 30 s EDE 3 after 500ms" {
			t.Errorf("entry in use: got %s", got)
		}
		time.Sleep(5 * time.Second)
	})
}

func mustKey(t *testing.T, name string) key {
	t.Helper()
	var r room
	k, ok := r.parsedKey(new(dns.Msg).SetQuestion(name, dns.TypeA))
	if !ok {
		t.Fatal(name)
	}
	return k
}
