package doctor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// podNamespaces are the directories where container runtimes bind the network namespaces of pods:
// containerd and CRI-O, and Docker.
var podNamespaces = []string{"/run/netns", "/run/docker/netns"}

const (
	// maxPods limits the namespaces from which queries are sent. The kubelet's default limit is 110
	// pods.
	maxPods = 128
	// maxThreads limits those from which queries are sent at the same time. Each has a thread of
	// its own, and a container may have a low limit on threads.
	maxThreads = 32
	// maxPodsForNames limits those from which all names are queried.
	maxPodsForNames = 2
	// maxNamespaces limits those that are inspected.
	maxNamespaces = 512
)

// pods sends queries from within the network namespaces of pods to the addresses where pods find
// this node. Nothing else shows how a firewall, a route, allowFrom or a network policy affects a
// pod: a policy may allow one pod what it denies another. It requires root. These queries, and
// those of fromHost and askAsClients, are the only ones of doctor that count as a client's.
func (g *gathering) pods(ctx context.Context) {
	if !g.s.Live || !g.s.Host.Root || g.s.Status == nil {
		return
	}
	servers := g.s.podServers()
	if len(servers) == 0 {
		return
	}
	var probes []LocalProbe
	pods, more := 0, 0
	for _, dir := range podNamespaces {
		files, _ := filepath.Glob(filepath.Join(dir, "*")) // the pattern is valid
		for _, file := range files[:min(len(files), maxNamespaces)] {
			var own []LocalProbe
			for _, server := range servers {
				probe := LocalProbe{Namespace: file, Server: netip.AddrPortFrom(server.addr, nameserver.Port), Mode: server.mode}
				if g.isPod(&probe) {
					own = append(own, probe)
				}
			}
			switch {
			case len(own) == 0:
			case pods == maxPods:
				more++
			default:
				pods++
				probes = append(probes, own...)
			}
		}
	}
	if more > 0 {
		g.unseen("queries were sent from %d pods, not from %d others", pods, more)
	}
	question := dns.Question{Name: "kubernetes.default.svc." + g.s.Status.Cluster.Domain, Qtype: dns.TypeA, Qclass: dns.ClassINET}
	var all errgroup.Group
	all.SetLimit(maxThreads)
	for i := range probes {
		all.Go(func() error {
			p := &probes[i]
			err := within(p.Namespace, func() {
				p.ask(ctx, question)
				p.identify(ctx)
			})
			if err != nil {
				g.unseen("query from %s: %v", p.Namespace, err)
				p.Client = netip.Addr{}
			}
			return nil // an error of one pod does not stop the others
		})
	}
	_ = all.Wait()
	g.namePods(ctx, probes)
	g.s.Pods = probes
}

// podServer is an address at which pods query this node.
type podServer struct {
	addr netip.Addr
	mode string // of the interception; empty for the node's own address
}

// podServers returns the intercepted addresses, and the node's own, unless the kubelet gives pods
// only intercepted ones. A policy may deny these pods the node's address.
func (s *Snapshot) podServers() []podServer {
	var all []podServer
	if i := s.Status.Interception; i != nil && !i.Cilium { // with Cilium, this is a pod
		for _, a := range i.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil && a.On && !a.IsStandby() {
				all = append(all, podServer{addr, a.Mode})
			}
		}
	}
	isOther := func(addr netip.Addr) bool {
		return !slices.ContainsFunc(all, func(server podServer) bool { return server.addr == addr })
	}
	if len(all) > 0 && !slices.ContainsFunc(s.Host.State.Config.DNSIPs, isOther) {
		return all
	}
	server := s.Host.State.Placement().Nameserver
	for _, at := range s.wanted() {
		if !server.IsValid() || server.IsLoopback() {
			server = at.Addr()
		}
	}
	if server.IsValid() && !server.IsLoopback() && isOther(server) {
		all = append(all, podServer{addr: server})
	}
	return all
}

// identify sets IsOther if another nameserver answers at an intercepted address. node-dns refuses
// version.bind to pods with the text OnlyThisHost.
func (p *LocalProbe) identify(ctx context.Context) {
	if p.Mode == "" || p.UDP.Err != nil || p.UDP.Rcode == "REFUSED" {
		return
	}
	a := exchange(ctx, nameserver.Server{Addr: p.Server}, "udp", whoAnswers(), bufferSize, false)
	p.IsOther = a.Err == nil && !slices.ContainsFunc(a.EDE, func(e control.ExtendedError) bool { return e.Text == nameserver.OnlyThisHost })
}

// whoAnswers returns a question that node-dns answers without upstreams.
func whoAnswers() dns.Question {
	return dns.Question{Name: "version.bind.", Qtype: dns.TypeTXT, Qclass: dns.ClassCHAOS}
}

func (p *LocalProbe) ask(ctx context.Context, q dns.Question) {
	to := nameserver.Server{Addr: p.Server}
	p.UDP = exchange(ctx, to, "udp", q, bufferSize, false)
	p.TCP = exchange(ctx, to, "tcp", q, bufferSize, false)
}

// forClients returns the questions that are sent as a pod and as this host: the admin's, the API
// server's name, this node's name, some recent names and the domains of routes. A name that the
// daemon cannot answer at once would only fail again, and count as a client's failure.
func (s *Snapshot) forClients() []Asked {
	var asked []Asked
	recent := 0
	for _, n := range s.Names {
		if !s.isComparable(n) || n.Why == recentlyUsed && recent == maxClientRecent || len(asked) == maxClientNames {
			continue
		}
		if n.Why == recentlyUsed {
			recent++
		}
		asked = append(asked, Asked{Name: n.Name, Type: n.Type})
	}
	return asked
}

// askAsClients sends queries for names as the clients that pods and fromHost have found.
func (g *gathering) askAsClients(ctx context.Context) {
	names := g.s.forClients()
	var all sync.WaitGroup
	for i := range g.s.Pods[:min(len(g.s.Pods), maxPodsForNames)] {
		if g.s.Pods[i].Client.IsValid() {
			all.Go(func() { g.s.Pods[i].askNames(ctx, names) })
		}
	}
	if g.s.FromHost.Server.IsValid() {
		all.Go(func() { g.s.FromHost.askNames(ctx, names) })
	}
	all.Wait()
}

// askNames sends the questions in all ways. Each way has a thread of its own, because the sockets
// must belong to the namespace, and sends one question after the other. It ends at the first one
// without an answer, so that askNames takes a few seconds at most.
func (p *LocalProbe) askNames(ctx context.Context, names []Asked) {
	if p.failure() != "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	p.Names = slices.Clone(names)
	for i := range p.Names {
		p.Names[i].Server = p.Server.String()
	}
	var all sync.WaitGroup
	for i := range new(Direct).ways() {
		all.Go(func() {
			_ = within(p.Namespace, func() { p.askWay(ctx, i) }) // a pod that has just ended gets no more queries
		})
	}
	all.Wait()
}

// askWay sends the questions in the way with this index.
func (p *LocalProbe) askWay(ctx context.Context, index int) {
	server := nameserver.Server{Addr: p.Server}
	for i := range p.Names {
		n := &p.Names[i]
		w := n.ways()[index]
		*w.answer = w.ask(ctx, server, dns.Question{Name: n.Name, Qtype: dns.StringToType[n.Type], Qclass: dns.ClassINET})
		if w.answer.Err != nil {
			return
		}
	}
}

// fromHost sends a query to this node as the host's programs do, if resolv.conf names it. The
// daemon answers without upstreams.
func (g *gathering) fromHost(ctx context.Context) {
	if !g.s.Live || g.s.Status == nil {
		return
	}
	wanted := g.s.wanted()
	for _, addr := range resolvconf.Parse(g.s.Host.State.ResolvConf.Data).Nameservers() {
		if at := netip.AddrPortFrom(addr, 53); slices.Contains(wanted, at) {
			g.s.FromHost.Server = at
			g.s.FromHost.ask(ctx, whoAnswers())
			return
		}
	}
}

// isPod reports whether a namespace has a route to this node, from an address that this node
// reaches like that of a pod. It stores the address in p. Other programs, such as VPNs, have
// namespaces too.
func (g *gathering) isPod(p *LocalProbe) bool {
	err := within(p.Namespace, func() {
		conn, err := net.Dial("udp", p.Server.String()) // sends no packet
		if err != nil {
			return
		}
		defer conn.Close()
		if local, ok := conn.LocalAddr().(*net.UDPAddr); ok {
			p.Client = local.AddrPort().Addr().Unmap()
		}
	})
	return err == nil && p.Client.IsValid() && !g.s.Host.State.Net.IsLocal(p.Client) && g.s.isNear(p.Client)
}

// errEnded means that a function ended its goroutine.
var errEnded = errors.New("the function did not return")

// within calls f in a network namespace, to which the sockets that f opens belong. The thread is
// not reused. Without a namespace it calls f in that of this process.
func within(namespace string, f func()) error {
	if namespace == "" {
		f()
		return nil
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with its goroutine
		err := errEnded
		defer func() { done <- err }()
		err = enter(namespace, f)
	}()
	return <-done
}

func enter(namespace string, f func()) error {
	file, err := os.Open(namespace)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("setns", err)
	}
	f()
	return nil
}
