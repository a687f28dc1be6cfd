package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// loadRecords are the records of a nameserver with an address for every name, except below
// no.example.
const loadRecords = `
*.example. 300 IN A 192.0.2.80
never.example. 0 IN A 192.0.2.81
alias.example. 300 IN CNAME hot1.example.
no.example. 300 IN SOA ns.example. hostmaster.example. 1 2 3 4 60
`

// loadKinds are the kinds of queries that TestLoad's clients send in turn. NUMBER stands for the
// query's number, HOT for one of 40 names.
var loadKinds = []struct {
	name  string
	qtype uint16
	want  string // data of the last answer record; empty if there is none
	rcode int
	many  int // number of answer records; 0 means one if want is set
}{
	{name: "HOT.example.", qtype: dns.TypeA, want: "192.0.2.80"},
	{name: "HOT.eXAMPle.", qtype: dns.TypeA, want: "192.0.2.80"},
	{name: "web.shop.svc.cluster.local.", qtype: dns.TypeA, want: "172.30.0.9"},
	{name: "HOT.example.", qtype: dns.TypeA, want: "192.0.2.80"},
	{name: "nNUMBER.example.", qtype: dns.TypeA, want: "192.0.2.80"},
	{name: "nNUMBER.no.example.", qtype: dns.TypeA, rcode: dns.RcodeNameError},
	{name: "nobody.SHOP.svc.cluster.local.", qtype: dns.TypeAAAA, rcode: dns.RcodeNameError},
	{name: "HOT.example.", qtype: dns.TypeTXT},
	{name: "never.example.", qtype: dns.TypeA, want: "192.0.2.81"},
	{name: "alias.example.", qtype: dns.TypeA, want: "192.0.2.80", many: 2},
	{name: "big.example.", qtype: dns.TypeTXT, many: 12},
	{name: "_http._tcp.web.shop.svc.cluster.local.", qtype: dns.TypeSRV, want: "0 100 80 web.shop.svc.cluster.local."},
}

// TestLoad lets clients send queries as fast as they are answered, over UDP and TCP: cache hits,
// misses and cluster names. Meanwhile the configuration is reloaded again and again, with other
// addresses and limits and with faults, the cache is flushed, Services come and go, and garbage is
// collected. Each query at the permanent address gets the right answer. At an address that comes
// and goes, each answer is right. The test is meant for the race detector and goleak.
func TestLoad(t *testing.T) {
	const clients = 32
	queries := 500
	if testing.Short() {
		queries = 100
	}
	site := dnstest.NewServer(t, loadRecords+dnstest.BigRecords())
	api := kubetest.NewServer(t)
	api.Apply(shop)
	stays, comes := dnstest.FreePort(t).String(), dnstest.FreePort(t).String()
	// While nothing listens there, a client of 127.0.0.1 may get that port as its own source port,
	// and then talks to itself.
	comes = strings.Replace(comes, "127.0.0.1", "127.0.0.2", 1)
	const yaml = "/etc/node-dns/node-dns.yaml"
	common := "upstreams: [\"" + site.Addr().String() + "\"]\n"
	r := start(t, map[string]string{yaml: common + "listen: '" + stays + "'\n", kubeconfigPath: string(api.Kubeconfig())}, func(c *Config) { c.Listen = nil })
	r.synced()

	ctx, cancel := context.WithCancel(t.Context())
	var changing, asking sync.WaitGroup
	var changes [4]atomic.Int32
	repeat := func(n int, change func(i int)) {
		changing.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				change(i)
				changes[n].Add(1)
			}
		})
	}
	repeat(0, func(i int) {
		configs := []string{
			"listen: ['" + stays + "', '" + comes + "']\n", "listen: '" + stays + "'\ncacheSize: 50\n", "listen: [\n", "cacheSize: 0\nlisten: ['" + stays + "', '" + comes + "']\n",
			"listen: '" + stays + "'\nclusterTTL: 7\n", "listen: '" + stays + "'\ndnsForwardMax: 500\nroutes: [{domain: a.example, servers: [192.0.2.53]}]\n",
		}
		// Replace it atomically: the daemon also reads it by itself, and with an empty file it
		// would listen elsewhere.
		path := filepath.Join(r.root, yaml)
		write(t, path+".new", common+configs[i%len(configs)])
		if err := os.Rename(path+".new", path); err != nil {
			t.Error(err)
		}
		_ = r.daemon.reload(ctx) // one in six is faulty
	})
	repeat(1, func(int) {
		r.daemon.resolver.Cache().Flush(nil)
		time.Sleep(5 * time.Millisecond)
	})
	repeat(2, func(int) {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	})
	repeat(3, func(i int) {
		api.Apply(fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: more%d, namespace: shop}\nspec: {clusterIP: 172.30.1.%[1]d, clusterIPs: [172.30.1.%[1]d], ports: [{port: 80}]}\n", i%200+1))
		time.Sleep(20 * time.Millisecond)
	})
	var answered [2]atomic.Int32
	for client := range clients {
		network := []string{"udp", "udp", "udp", "tcp"}[client%4]
		asking.Go(func() { loadAt(t, network, stays, client*queries, queries, true, &answered[0]) })
	}
	for client := range 2 {
		network := []string{"udp", "tcp"}[client]
		asking.Go(func() { loadAt(t, network, comes, (clients+client)*queries, queries, false, &answered[1]) })
	}
	asking.Wait()
	cancel()
	changing.Wait()
	if n := answered[0].Load(); int(n) != clients*queries {
		t.Errorf("%d of %d queries were answered correctly", n, clients*queries)
	}
	if answered[1].Load() == 0 {
		t.Error("no query was answered at the address that comes and goes")
	}
	for n := range changes {
		if changes[n].Load() == 0 {
			t.Errorf("change number %d had no effect", n)
		}
	}
	t.Logf("answered %d and %d queries; reloads %d, flushes %d, collections %d, services %d", answered[0].Load(), answered[1].Load(),
		changes[0].Load(), changes[1].Load(), changes[2].Load(), changes[3].Load())
}

// loadAt sends n queries, numbered from a given one, one after the other on one socket. If all is
// set, a missing answer is an error.
func loadAt(t *testing.T, network, at string, from, n int, all bool, answered *atomic.Int32) {
	client := dns.Client{Net: network, Timeout: 20 * time.Second, UDPSize: dns.MaxMsgSize}
	if !all {
		client.Timeout = 100 * time.Millisecond // the address may be gone
	}
	var conn *dns.Conn
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	for number := from; number < from+n; number++ {
		var err error
		if conn == nil {
			if conn, err = client.Dial(at); err != nil {
				if all {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
				continue
			}
		}
		fault, err := loadOne(&client, conn, network, number)
		switch {
		case fault != "":
			t.Error(fault)
		case err == nil:
			answered.Add(1)
		default:
			if all {
				t.Errorf("query %d over %s: %v", number, network, err)
			}
			conn.Close()
			conn = nil
		}
	}
}

// loadOne sends one query and returns what is wrong with the answer. err means that there was no
// answer.
func loadOne(client *dns.Client, conn *dns.Conn, network string, number int) (fault string, err error) {
	kind := loadKinds[number%len(loadKinds)]
	name := strings.NewReplacer("NUMBER", fmt.Sprint(number), "HOT", fmt.Sprint("hot", number%40)).Replace(kind.name)
	query := new(dns.Msg).SetQuestion(name, kind.qtype)
	if number%3 == 0 {
		query.SetEdns0(1232, number%2 == 0)
	}
	m, _, err := client.ExchangeWithConn(query, conn)
	if err != nil {
		return "", err
	}
	what := fmt.Sprintf("query %d over %s: ", number, network)
	data := ""
	if n := len(m.Answer); n > 0 {
		data = strings.TrimPrefix(m.Answer[n-1].String(), m.Answer[n-1].Header().String())
	}
	many := kind.many
	if many == 0 && kind.want != "" {
		many = 1
	}
	switch {
	case m.Id != query.Id || len(m.Question) != 1 || m.Question[0] != query.Question[0] || (m.IsEdns0() == nil) != (query.IsEdns0() == nil):
		return what + "another's answer: " + m.String(), nil
	case m.Rcode != kind.rcode:
		return what + m.String(), nil
	case m.Truncated && network == "udp" && kind.many > 2:
		return "", nil
	case m.Truncated, len(m.Answer) != many, kind.want != "" && data != kind.want:
		return what + m.String(), nil
	}
	return "", nil
}
