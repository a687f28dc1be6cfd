package netns

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// A boardScene is a part of the run.
type boardScene struct {
	share  float64 // share of the run's time
	faults [2]dnstest.Faults
	busy   float64 // multiple of the usual query rate
	flood  bool    // a pod exceeds clientRateLimit
	enter  func(*boardNode)
}

// Latencies of the upstream nameservers.
const (
	near    = 4 * time.Millisecond
	far     = 12 * time.Millisecond
	farther = 40 * time.Millisecond
)

// boardScenes are the events of a bad week, in less time.
var boardScenes = []boardScene{
	{share: .16, faults: [2]dnstest.Faults{{Delay: near}, {Delay: far}}, busy: 1},
	{share: .16, faults: [2]dnstest.Faults{{Delay: near}, {Delay: far}}, busy: 2.5, enter: func(n *boardNode) { n.rollOut(30) }},
	{share: .16, faults: [2]dnstest.Faults{{Drop: true}, {Delay: far}}, busy: 1.5},
	{share: .1, faults: [2]dnstest.Faults{{Drop: true}, {Drop: true}}, busy: 1.5},
	{share: .16, faults: [2]dnstest.Faults{{Delay: near}, {Delay: far}}, busy: 1, enter: (*boardNode).trample},
	{share: .1, faults: [2]dnstest.Faults{{Delay: near}, {Delay: far}}, busy: 1, flood: true, enter: func(n *boardNode) { n.rollOut(45) }},
	{share: .16, faults: [2]dnstest.Faults{{Delay: near}, {Delay: farther}}, busy: .8},
}

// trample writes resolv.conf like another tool.
func (n *boardNode) trample() { n.l.WriteFile(resolvConf, "nameserver 198.51.100.1\n") }

// play runs the scenes. Unanswered queries are expected.
func (n *boardNode) play(length time.Duration) {
	n.t.Helper()
	var all sync.WaitGroup
	defer all.Wait()
	defer n.restartPods()()
	for number, scene := range boardScenes {
		for i, faults := range scene.faults {
			n.sites[i].SetFaults(faults)
		}
		if scene.enter != nil {
			scene.enter(n)
		}
		loads := n.boardLoads(number, scene)
		time.Sleep(time.Duration(scene.share * float64(length)))
		for _, load := range loads {
			all.Go(func() { load.Stop() })
		}
	}
}

// boardLoads starts the load of the pods and of the host.
func (n *boardNode) boardLoads(number int, scene boardScene) (started []*dnstest.Loading) {
	n.t.Helper()
	start := func(from *lab.Namespace, to, client string, rate float64, asks []dnstest.Ask) {
		load := dnstest.Load{Server: netip.AddrPortFrom(netip.MustParseAddr(to), 53), Rate: int(rate), Asks: asks, Sockets: 2}
		if client != "" {
			load.Clients = []netip.Addr{netip.MustParseAddr(client)}
		}
		var loading *dnstest.Loading
		var err error
		begin := func() { loading, err = load.Start() }
		if from == nil {
			begin()
		} else if insideErr := from.Inside(begin); insideErr != nil {
			n.t.Fatal(insideErr)
		}
		if err != nil {
			n.t.Fatal(err)
		}
		started = append(started, loading)
	}
	start(n.pods, boardPods, shopPod, 80*scene.busy, shopAsks())
	start(n.pods, boardPods, otherPod, 50*scene.busy, otherAsks())
	start(n.pods, boardPods6, "", 40*scene.busy, hotAsks())
	start(nil, nodeIP, "", 40*scene.busy, hostAsks(number))
	if scene.flood {
		start(n.pods, boardPods, floodPod, 900, shopAsks())
	}
	return started
}

// hotAsks returns queries for names in use.
func hotAsks() []dnstest.Ask {
	var asks []dnstest.Ask
	for i := range 60 {
		name := fmt.Sprintf("www%d.hot.example.", i%20)
		asks = append(asks, dnstest.Ask{Name: name, Type: dns.TypeA}, dnstest.Ask{Name: name, Type: dns.TypeAAAA})
		if i%5 == 0 {
			asks = append(asks, dnstest.Ask{Name: name, Type: dns.TypeHTTPS})
		}
	}
	return asks
}

// shopAsks returns the queries of a pod with a search list that finds its names at the first query,
// by autopath.
func shopAsks() []dnstest.Ask {
	var asks []dnstest.Ask
	for i, hot := range hotAsks() {
		switch i % 4 {
		case 0:
			hot.Name += "shop.svc.cluster.local."
		case 1:
			hot.Name = "web.shop.svc.cluster.local."
		case 2:
			hot.Name = fmt.Sprintf("s%d.shop.svc.cluster.local.", i%30)
		}
		asks = append(asks, hot)
	}
	return append(asks, dnstest.Ask{Name: "_http._tcp.web.shop.svc.cluster.local.", Type: dns.TypeSRV})
}

// otherAsks returns the queries of a pod that walks its search list itself.
func otherAsks() []dnstest.Ask {
	var asks []dnstest.Ask
	for i, hot := range hotAsks() {
		for _, domain := range []string{"pay.svc.cluster.local.", "svc.cluster.local.", "cluster.local.", ""} {
			asks = append(asks, dnstest.Ask{Name: hot.Name + domain, Type: hot.Type})
		}
		if i%4 == 0 {
			asks = append(asks, dnstest.Ask{Name: "web.pay.svc.cluster.local.", Type: hot.Type})
		}
	}
	return asks
}

// hostAsks returns the queries of the node's own programs: mostly new names, different in each
// scene.
func hostAsks(scene int) []dnstest.Ask {
	fresh := fmt.Sprintf("n%%d.scene%d.", scene)
	return []dnstest.Ask{
		{Name: fresh + "far.example.", Type: dns.TypeA},
		{Name: fresh + "far.example.", Type: dns.TypeAAAA},
		{Name: fresh + "far.example.", Type: dns.TypeA},
		{Name: fresh + "far.example.", Type: dns.TypeA, TCP: true},
		{Name: fresh + "nowhere.example.", Type: dns.TypeA},
		{Name: "www1.hot.example.", Type: dns.TypeTXT},
		{Name: "www2.hot.example.", Type: dns.TypeMX},
		{Name: "www3.hot.example.", Type: dns.TypeA, TCP: true},
		{Name: "9.0.30.172.in-addr.arpa.", Type: dns.TypePTR},
	}
}
