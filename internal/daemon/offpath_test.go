package daemon

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/resolve"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestStrayNames: a response's records for other names are not cached. Later queries for those
// names go upstream and get the true answer (MaginotDNS, 2023).
func TestStrayNames(t *testing.T) {
	t.Parallel()
	const forged = " 300 IN A " + dnstest.ForgedA
	rows := map[string]dnstest.Faults{
		"answer":     {ExtraRR: "mail.example.com." + forged},
		"alias":      {ExtraRR: "mail.example.com. 300 IN CNAME " + dnstest.ForgedName},
		"authority":  {ExtraAuthority: "mail.example.com. 300 IN NS mail.example.com.", ExtraAdditional: "mail.example.com." + forged},
		"additional": {ExtraAdditional: "mail.example.com." + forged},
		"the parent": {ExtraAuthority: "com. 300 IN NS mail.example.com.", ExtraAdditional: "mail.example.com." + forged},
	}
	for name, faults := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := dnstest.NewServer(t, siteRecords+"\nmail.example.com. 300 IN A 192.0.2.25\n")
			site.SetFaultsFor("www.example.com.", faults)
			r := start(t, map[string]string{upstreamPath: upstreamFile(site)})
			for range 2 { // a miss and a hit
				m := dnstest.Exchange(t, r.address(), "www.example.com.", dns.TypeA)
				if firstValue(m) != "192.0.2.80" || len(m.Answer) != 1 {
					t.Errorf("got\n%v", m)
				}
			}
			m := dnstest.Exchange(t, r.address(), "mail.example.com.", dns.TypeA)
			if firstValue(m) != "192.0.2.25" || site.QueriesFor("mail.example.com.", dns.TypeA) != 1 {
				t.Errorf("%d upstream queries, got\n%v", site.QueriesFor("mail.example.com.", dns.TypeA), m)
			}
		})
	}
}

// TestClientsOptions: of a client's OPT record only DO is forwarded. Its client subnet would split
// coalesced queries (CVE-2025-5994), and its cookie and padding are hop-by-hop (RFC 6891 section
// 6.1.1).
func TestClientsOptions(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	r := start(t, map[string]string{upstreamPath: upstreamFile(site)})
	options := []dns.EDNS0{
		&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IPv4(198, 51, 100, 0).To4()},
		&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0123456789abcdef"},
		&dns.EDNS0_NSID{Code: dns.EDNS0NSID},
		&dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE},
		&dns.EDNS0_PADDING{Padding: make([]byte, 32)},
		&dns.EDNS0_LOCAL{Code: 65001, Data: []byte("who asks")},
	}
	for i, option := range options {
		for _, network := range []string{"udp", "tcp"} {
			for _, do := range []bool{false, true} {
				q := new(dns.Msg).SetQuestion(fmt.Sprintf("%s%d-%v.example.com.", network, i, do), dns.TypeA).SetEdns0(4096, do)
				q.IsEdns0().Option = []dns.EDNS0{option}
				client := dns.Client{Net: network, Timeout: 20 * time.Second}
				m, _, err := client.Exchange(q, r.address().String())
				if err != nil {
					t.Fatal(err)
				}
				if opt := m.IsEdns0(); opt == nil || slices.ContainsFunc(opt.Option, func(o dns.EDNS0) bool { return o.Option() == dns.EDNS0SUBNET }) {
					t.Errorf("the client got\n%v", m)
				}
			}
		}
	}
	// By name: the sizes that the upstream was offered. On a busy machine, a query is repeated with
	// a smaller one or without EDNS, and may arrive before the first.
	sizes := map[string][]uint16{}
	for _, q := range site.Received() {
		name, opt := q.Msg.Question[0].Name, q.Msg.IsEdns0()
		if name == "." || strings.HasSuffix(name, resolve.ProbeZone) {
			continue // our own: whether a silent server answers, and the loop probe
		}
		if opt == nil {
			opt = &dns.OPT{}
		}
		if len(opt.Option) != 0 {
			t.Errorf("the upstream got\n%v", q.Msg)
		}
		sizes[name] = append(sizes[name], opt.UDPSize())
	}
	if len(sizes) != 4*len(options) {
		t.Errorf("%d names were queried, want %d: %v", len(sizes), 4*len(options), sizes)
	}
	for name, offered := range sizes {
		if !slices.Contains(offered, 1232) {
			t.Errorf("%s was queried with sizes %v", name, offered)
		}
	}
}

// TestBirthday: however many clients query a name at once, one upstream query is sent. A hundred
// would multiply an attacker's chances by ten thousand (CVE-2020-25686, CVE-2023-30464).
func TestBirthday(t *testing.T) {
	const sockets, each = 100, 100
	site := dnstest.NewServer(t, siteRecords)
	site.SetFaults(dnstest.Faults{Delay: 500 * time.Millisecond})
	r := start(t, map[string]string{upstreamPath: upstreamFile(site)})
	at := r.address().String()
	var clients sync.WaitGroup
	var mu sync.Mutex
	answers := 0
	for i := range sockets {
		clients.Go(func() {
			from := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.IPv4(127, 0, 1, byte(i+1))}} // each client has its own share
			socket, err := from.Dial("udp", at)
			if err != nil {
				t.Error(err)
				return
			}
			conn := &dns.Conn{Conn: socket}
			defer conn.Close()
			for i := range each {
				q := new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA)
				q.Id = uint16(i)
				if err := conn.WriteMsg(q); err != nil {
					t.Error(err)
				}
			}
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			for range each {
				m, err := conn.ReadMsg()
				if err != nil {
					return // the socket buffer was full
				}
				if m.Rcode == dns.RcodeSuccess { // otherwise a client's share was used up
					mu.Lock()
					answers++
					mu.Unlock()
				}
				if m.Rcode == dns.RcodeSuccess && firstValue(m) != "192.0.2.80" {
					t.Errorf("got\n%v", m)
				}
			}
		})
	}
	clients.Wait()
	// The first client causes one query. A nameserver that takes half a second is retried a few
	// times, regardless of the number of clients, and as often once more on a machine so slow that
	// no client waits any more.
	if n := site.QueriesFor("www.example.com.", dns.TypeA); n > 8 {
		t.Errorf("%d queries caused %d upstream queries", sockets*each, n)
	}
	if t.Logf("%d of %d answered", answers, sockets*each); answers < each {
		t.Error("too few")
	}
}
