package daemon

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestSamples: the samples represent the number of queries, however high it is, and each cache miss
// is reported individually.
func TestSamples(t *testing.T) {
	t.Parallel()
	const many = 60_000
	site := dnstest.NewServer(t, siteRecords)
	r := start(t, map[string]string{upstreamPath: upstreamFile(site)})
	dnstest.Exchange(t, r.address(), "www.example.com.", dns.TypeA)
	asked := make(chan error, 1)
	begin := sync.OnceFunc(func() { go func() { asked <- askRemembered(r.address().String(), many) }() })
	miss := sync.OnceFunc(func() { dnstest.Exchange(t, r.address(), "nowhere.example.com.", dns.TypeA) })
	enough := errors.New("enough")
	var hits, events, lost, absent uint64
	err := control.Monitor(t.Context(), control.SocketPath(r.root), control.MonitorFilter{Sampled: true}, func(e control.MonitorEvent) error {
		switch {
		case e.Kind == control.KindLost:
			lost += e.Queries
		case e.Kind == control.KindStatus && absent > 0:
			return enough
		case e.Kind == control.KindStatus && len(asked) > 0:
			miss()
		case e.Kind == control.KindStatus:
			begin()
		case e.Kind == control.KindQuery && e.Name == "www.example.com." && e.By == "hit":
			events++
			hits += max(1, e.Queries)
		case e.Kind == control.KindQuery && e.Name == "nowhere.example.com.":
			absent++
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if err := <-asked; err != nil {
		t.Fatal(err)
	}
	if hits < many*3/4 || hits > many*5/4 {
		t.Errorf("%d events represent %d of %d hits; %d were lost", events, hits, many, lost)
	}
	t.Logf("%d events for %d hits", events, many)
	if absent != 1 {
		t.Errorf("a cache miss was reported %d times", absent)
	}
}

// askRemembered sends that many queries for a cached name, some at a time.
func askRemembered(server string, times int) error {
	const window = 16
	conn, err := net.Dial("udp", server)
	if err != nil {
		return err
	}
	defer conn.Close()
	query, err := new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA).Pack()
	if err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for sent, got := 0, 0; got < times; got++ {
		for ; sent < times && sent-got < window; sent++ {
			if _, err := conn.Write(query); err != nil {
				return err
			}
		}
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := conn.Read(buf); err != nil {
			return err
		}
	}
	return nil
}
