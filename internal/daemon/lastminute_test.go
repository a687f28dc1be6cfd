package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestLastMinute: what is told is the difference to a minute ago, and no more is kept than that takes.
func TestLastMinute(t *testing.T) {
	var m minute
	began := time.Now()
	at := func(seconds int, queries uint64) sample {
		return sample{
			at: began.Add(time.Duration(seconds) * time.Second), queries: queries, responses: queries, nxdomain: queries / 2, servfail: queries / 10,
			// Of ten, five took less than 1 ms, nine less than 2, and all less than 4.
			upTo: map[time.Duration]uint64{time.Millisecond: queries / 2, 2 * time.Millisecond: queries * 9 / 10, 4 * time.Millisecond: queries},
		}
	}
	if got := m.since(at(0, 10)); got != nil {
		t.Errorf("before anything: %+v", got)
	}
	for i := range 100 {
		m.add(at(10*i, uint64(1000*i)))
		now := m.since(at(10*i+9, uint64(1000*i)))
		switch {
		case i == 0:
			if now != nil {
				t.Errorf("at once: %+v", now)
			}
			continue
		case now == nil || now.Queries != uint64(1000*min(i, 6)) && now.Queries != uint64(1000*min(i, 5)) || now.Over > 70*time.Second:
			t.Fatalf("after %d s: %+v", 10*i+9, now)
		}
		want := fmt.Sprint(now.Queries/2, now.Queries/10, time.Millisecond, 4*time.Millisecond)
		if got := fmt.Sprint(now.NXDomain, now.ServFail, now.P50, now.P99); got != want {
			t.Errorf("after %d s: %s, want %s", 10*i+9, got, want)
		}
		if len(m.samples) > 8 {
			t.Fatalf("%d samples", len(m.samples))
		}
	}
	if none := m.since(at(1000, 99_000)); none.Queries != 5000 && none.Queries != 6000 {
		t.Errorf("%+v", none)
	}
	m = minute{samples: []sample{at(0, 0)}}
	if slow := m.since(sample{at: began.Add(time.Minute), queries: 3, responses: 3}); slow.P50 != 0 || slow.Queries != 3 {
		t.Errorf("those that took too long: %+v", slow)
	}
}

// TestSample: the counters are those of the listeners.
func TestSample(t *testing.T) {
	site := dnstest.NewServer(t, siteRecords+"example.com. 300 IN SOA a. b. 1 2 3 4 5\n")
	r := start(t, map[string]string{upstreamPath: upstreamFile(site)})
	before := newSample(time.Now(), r.daemon.server.Traffic())
	for range 3 {
		dnstest.Exchange(t, r.address(), "www.example.com.", dns.TypeA)
	}
	dnstest.ExchangeTCP(t, r.address(), "nowhere.example.com.", dns.TypeA)
	var after sample
	r.await("they are counted", func() bool {
		after = newSample(time.Now(), r.daemon.server.Traffic())
		return after.responses-before.responses >= 4
	})
	if after.queries-before.queries != 4 || after.nxdomain-before.nxdomain != 1 || after.servfail != before.servfail || len(after.upTo) == 0 {
		t.Errorf("%+v and then %+v", before, after)
	}
	if dnsserver.RcodeNames[dns.RcodeNameError] != "NXDOMAIN" || dnsserver.RcodeNames[dns.RcodeServerFailure] != "SERVFAIL" {
		t.Error("the names of response codes are others")
	}
}
