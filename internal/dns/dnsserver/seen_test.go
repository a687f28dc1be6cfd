package dnsserver

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"sync"
	"testing"
	"time"
	"unique"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// TestSeen: the Watch is called exactly once for every query with the right outcome, however it is
// answered.
func TestSeen(t *testing.T) {
	upstream := nameserver.FromAddr(netip.MustParseAddr("192.0.2.53"))
	handler := func(_ context.Context, q *Query) (*dns.Msg, error) {
		m := new(dns.Msg).SetReply(q.Msg)
		switch q.Msg.Question[0].Name {
		case "upstream.":
			q.AnsweredBy = upstream
		case "remembered.":
			q.Cached, q.AnsweredBy = true, upstream
		case "stale.":
			q.Cached, q.Stale = true, true
		case "failed.":
			return nil, &ExtendedError{Code: dns.ExtendedErrorCodeNetworkError, Text: "nobody is there"}
		case "before.":
			q.Cached = true
			return nil, &ExtendedError{Code: dns.ExtendedErrorCodeCachedError, Text: FailedBefore}
		case "plain.":
			return nil, errors.New("not for clients")
		case "panic.":
			panic("on purpose")
		case "silent.":
			return nil, nil
		}
		return m, nil
	}
	wire := func(dst []byte, q *WireQuery) ([]byte, bool) {
		if name := string(q.Name()); name != "\x04wire\x00" && (name != "\x05later\x00" || dst != nil) {
			return dst, false
		}
		start := len(dst)
		dst = append(dst, q.Msg[:q.End]...)
		dst[start+2] |= bitQR >> 8
		return dst, true
	}
	miss := func(l *PendingQuery) bool {
		if string(l.Query().Name()) != "\x05later\x00" {
			return false
		}
		response, _ := wire(nil, &WireQuery{Msg: append([]byte(nil), l.Query().Msg...), End: l.Query().End})
		l.Send(response, unique.Make(upstream))
		return true
	}
	type row struct {
		Outcome  Outcome
		Server   nameserver.Server
		Why      string
		Answered bool
	}
	want := map[string]row{
		"wire.":       {Outcome: ByWire, Answered: true},
		"later.":      {Outcome: ByUpstream, Server: upstream, Answered: true},
		"upstream.":   {Outcome: ByUpstream, Server: upstream, Answered: true},
		"remembered.": {Outcome: ByMemory, Answered: true},
		"stale.":      {Outcome: ByStale, Answered: true},
		"own.":        {Outcome: ByHandler, Answered: true},
		"failed.":     {Outcome: ByNobody, Why: "nobody is there", Answered: true},
		"plain.":      {Outcome: ByNobody, Answered: true},
		"before.":     {Outcome: ByFailure, Why: FailedBefore, Answered: true},
		"panic.":      {Outcome: ByNobody, Why: "internal error", Answered: true},
		"silent.":     {Outcome: ByHandler},
		"axfr.":       {Outcome: ByServer, Answered: true},
		"stranger.":   {Outcome: ByServer, Why: "queries from this network are not allowed", Answered: true},
	}
	for _, proto := range []string{"udp", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			s, at := start(t, Config{Handler: HandlerFunc(handler), Wire: wire, Miss: miss})
			var mu sync.Mutex
			got := map[string]row{}
			s.SetWatch(func(seen Seen) {
				mu.Lock()
				defer mu.Unlock()
				var m dns.Msg
				if err := m.Unpack(seen.Query); err != nil {
					t.Error(err)
					return
				}
				name := m.Question[0].Name
				if _, twice := got[name]; twice {
					t.Errorf("%s was reported twice", name)
				}
				if seen.Client.Addr() != at.Addr() || string(seen.Proto) != proto || seen.Took > time.Minute || seen.Took < 0 && name != "axfr." && name != "stranger." {
					t.Errorf("%s: %+v", name, seen)
				}
				got[name] = row{seen.Outcome, seen.Server, seen.Why, seen.Response != nil}
			}, 1000)
			client := dns.Client{Net: proto, Timeout: 10 * time.Second}
			for name := range want {
				if name == "stranger." {
					continue // the last one, below
				}
				query := new(dns.Msg).SetQuestion(name, dns.TypeA)
				if name == "axfr." {
					query.Question[0].Qtype = dns.TypeAXFR
				}
				c := client
				if name == "silent." {
					c.Timeout = 100 * time.Millisecond
				}
				if _, _, err := c.Exchange(query, at.String()); err != nil && name != "silent." {
					t.Errorf("%s: %v", name, err)
				}
			}
			s.SetAccess(&Access{Clients: NewNetworks(nil)})
			if _, _, err := client.Exchange(new(dns.Msg).SetQuestion("stranger.", dns.TypeA), at.String()); err != nil {
				t.Error(err)
			}
			s.SetWatch(nil, 0)
			_, _, _ = client.Exchange(new(dns.Msg).SetQuestion("unseen.", dns.TypeA), at.String())
			expected := want
			if proto == "tcp" {
				expected = maps.Clone(want)
				expected["later."] = row{Outcome: ByHandler, Answered: true} // TCP has no PendingQuery
			}
			for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
				mu.Lock()
				diff := cmp.Diff(expected, got, cmp.Comparer(func(a, b nameserver.Server) bool { return a == b }))
				mu.Unlock()
				if diff == "" {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestTrouble: Trouble is called for slow and failed queries, whether or not a Watch is set, and
// for no others: not for hits, and not for queries that the server refuses.
//
// Failed is called for SERVFAIL and REFUSED on every path, and not for slow answers.
func TestTrouble(t *testing.T) {
	told, failed := make(chan Seen, 100), make(chan Seen, 100)
	_, at := start(t, Config{
		Handler: HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
			switch q.Msg.Question[0].Name {
			case "slow.":
				time.Sleep(SlowAfter)
			case "failed.":
				return nil, errors.New("no answer")
			case "absent.":
				return new(dns.Msg).SetRcode(q.Msg, dns.RcodeNameError), nil
			}
			return new(dns.Msg).SetReply(q.Msg), nil
		}),
		Miss: func(l *PendingQuery) bool {
			if string(l.Query().Name()) != "\x05later\x00" {
				return false
			}
			response := append([]byte(nil), l.Query().Msg[:l.Query().End]...)
			response[2] |= bitQR >> 8
			response[3] = dns.RcodeServerFailure
			l.Send(response, unique.Make(nameserver.FromAddr(netip.MustParseAddr("192.0.2.53"))))
			return true
		},
		Wire: func(dst []byte, q *WireQuery) ([]byte, bool) {
			if string(q.Name()) != "\x04wire\x00" {
				return dst, false
			}
			start := len(dst)
			dst = append(dst, q.Msg[:q.End]...)
			dst[start+2] |= bitQR >> 8
			dst[start+3] = dns.RcodeServerFailure
			return dst, true
		},
		Trouble: func(seen Seen) {
			seen.Query = append([]byte(nil), seen.Query...)
			told <- seen
		},
		Failed: func(seen Seen) {
			seen.Query = append([]byte(nil), seen.Query...)
			failed <- seen
		},
	})
	for _, name := range []string{"wire.", "absent.", "quick.", "axfr.", "slow.", "failed.", "later."} {
		m := new(dns.Msg).SetQuestion(name, dns.TypeA)
		if name == "axfr." {
			m.Question[0].Qtype = dns.TypeAXFR
		}
		if _, _, err := (&dns.Client{Timeout: 10 * time.Second}).Exchange(m, at.String()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	nameOf := func(seen Seen) string {
		var m dns.Msg
		if err := m.Unpack(seen.Query); err != nil {
			t.Fatal(err)
		}
		return m.Question[0].Name
	}
	got := map[string]Outcome{}
	for len(told) > 0 {
		seen := <-told
		switch name := nameOf(seen); {
		case name != "quick." && name != "absent.":
			got[name] = seen.Outcome
		case seen.Took < SlowAfter: // a busy machine may make them slow
			t.Errorf("%s took %v and was reported", name, seen.Took)
		}
	}
	if diff := cmp.Diff(map[string]Outcome{"slow.": ByHandler, "failed.": ByNobody, "later.": ByUpstream}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got = map[string]Outcome{}
	for len(failed) > 0 {
		seen := <-failed
		got[nameOf(seen)] = seen.Outcome
	}
	want := map[string]Outcome{"wire.": ByWire, "axfr.": ByServer, "failed.": ByNobody, "later.": ByUpstream}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

// TestFailedOfLimits: Failed is called over both transports for a client that exceeds its rate,
// with the reason, and not for a client that may not send queries.
func TestFailedOfLimits(t *testing.T) {
	for name, row := range map[string]struct {
		access Access
		want   []string
	}{
		"rate":      {Access{Host: NewNetworks(nil), Rate: 1}, []string{"too many queries per second", "too many queries per second"}},
		"no access": {Access{Clients: NewNetworks(nil), Host: NewNetworks(nil)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			failed := make(chan Seen, 100)
			server, at := start(t, Config{
				Handler: fixed("a. 60 IN A 192.0.2.1"), Access: &row.access, Failed: func(seen Seen) { failed <- seen },
			})
			denied := func() uint64 { return server.Stats().Hasty + server.Stats().Strangers }
			for _, network := range []string{"udp", "tcp"} {
				for before := denied(); denied() == before; {
					client := dns.Client{Net: network, Timeout: 10 * time.Second}
					if _, _, err := client.Exchange(new(dns.Msg).SetQuestion("a.", dns.TypeA), at.String()); err != nil {
						t.Fatal(err)
					}
				}
			}
			var why []string
			for len(failed) > 0 {
				why = append(why, (<-failed).Why)
			}
			if diff := cmp.Diff(row.want, why); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSampler: at a low rate all hits are picked. At a high rate the picks stay within the limit,
// and their weights add up to the number of hits.
func TestSampler(t *testing.T) {
	for _, test := range []struct {
		name           string
		perSecond      int
		rate           int // hits per second
		least, most    int // picks in the last second
		deviates       float64
		batch, seconds int
	}{
		{name: "no limit", perSecond: 0, rate: 50_000, least: 50_000, most: 50_000, batch: 10, seconds: 3},
		{name: "rate below the limit", perSecond: 250, rate: 200, least: 200, most: 200, batch: 1, seconds: 3},
		{name: "rate above the limit", perSecond: 250, rate: 100_000, least: 150, most: 300, deviates: 0.02, batch: 32, seconds: 5},
		{name: "rate above the limit, one at a time", perSecond: 250, rate: 100_000, least: 150, most: 300, deviates: 0.02, batch: 1, seconds: 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s sampler
			now, picks, stood := time.Now(), 0, 0
			for second := range test.seconds {
				picks, stood = 0, 0
				for n := 0; n < test.rate; n += test.batch {
					s.begin(now, test.perSecond)
					for range test.batch {
						if stands := s.take(); stands > 0 {
							picks++
							stood += stands
						}
					}
					now = now.Add(time.Duration(test.batch) * time.Second / time.Duration(test.rate))
				}
				if second == 0 && test.perSecond > 0 && picks > 5*test.perSecond {
					t.Errorf("got %d picks in the first second: burst not detected", picks)
				}
			}
			if picks < test.least || picks > test.most {
				t.Errorf("got %d picks", picks)
			}
			if off := float64(stood)/float64(test.rate) - 1; off > test.deviates || off < -test.deviates {
				t.Errorf("the picks represent %d of %d hits", stood, test.rate)
			}
		})
	}
}

// TestSamplerOfPairs: if clients alternate between A and AAAA, both are picked.
func TestSamplerOfPairs(t *testing.T) {
	var s sampler
	now, picked := time.Now(), [2]int{}
	for i := range 200_000 {
		s.begin(now, 250)
		if s.take() > 0 {
			picked[i%2]++
		}
		now = now.Add(10 * time.Microsecond)
	}
	if picked[0] < picked[1]*3/4 || picked[1] < picked[0]*3/4 {
		t.Errorf("picked %d of one type, %d of the other", picked[0], picked[1])
	}
}
