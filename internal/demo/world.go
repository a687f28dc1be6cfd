package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/daemon"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	upstream "github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nm"
)

// usualPort is the preferred port of the demo's daemon, because port 53 requires root.
const usualPort = 10053

// siteRecords and clusterRecords are the records of the simulated nameservers.
var (
	siteRecords    = map[string][4]byte{"www.example.com.": {192, 0, 2, 80}, "mail.example.com.": {192, 0, 2, 25}}
	clusterRecords = map[string][4]byte{"kubernetes.default.svc.cluster.local.": {172, 30, 0, 1}}
)

// world is the simulated environment: a directory tree, three nameservers, and an address to listen
// on.
type world struct {
	root      string
	upstreams []*nameserver
	cluster   *nameserver
	listen    netip.AddrPort
}

func newWorld() (w *world, err error) {
	w = &world{}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.root, err = os.MkdirTemp("", "node-dns-demo-"); err != nil {
		return w, err
	}
	for range 2 {
		server, err := startNameserver(siteRecords)
		if err != nil {
			return w, err
		}
		w.upstreams = append(w.upstreams, server)
	}
	if w.cluster, err = startNameserver(clusterRecords); err != nil {
		return w, err
	}
	if w.listen, err = freeAddress(); err != nil {
		return w, err
	}
	return w, w.writeFiles()
}

// close stops the nameservers and removes the directory tree.
func (w *world) close() {
	for _, server := range w.upstreams {
		server.close()
	}
	if w.cluster != nil {
		w.cluster.close()
	}
	if w.root != "" {
		os.RemoveAll(w.root) // a temporary directory
	}
}

func (w *world) writeFiles() error {
	files := map[string]string{
		"/etc/resolv.conf":            original,
		"/etc/node-dns/node-dns.yaml": fmt.Sprintf("clusterDNS: [%q]\n", w.cluster.addr),
		"/etc/dnsmasq.d/.keep":        "",
		"/run/NetworkManager/.keep":   "",
	}
	for name, text := range files {
		path := filepath.Join(w.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// freeAddress returns the usual port if it is free, or else one chosen by the kernel.
func freeAddress() (netip.AddrPort, error) {
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	var errs []error
	for _, port := range []uint16{usualPort, 0} {
		listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(loopback, port)))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		addr := listener.Addr().(*net.TCPAddr).AddrPort()
		socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr))
		listener.Close()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		socket.Close()
		return addr, nil
	}
	return netip.AddrPort{}, fmt.Errorf("finding a free port: %w", errors.Join(errs...))
}

// environment returns the variables that NetworkManager passes to its hook. Real upstreams have no
// port, but these may not use 53.
func (w *world) environment() []string {
	return []string{
		"DEVICE_IFACE=eth0", "DEVICE_IP_IFACE=eth0", "CONNECTION_ID=System eth0", "NM_DISPATCHER_ACTION=dhcp4-change",
		fmt.Sprintf("IP4_NAMESERVERS=%s %s", dnsmasqForm(w.upstreams[0]), dnsmasqForm(w.upstreams[1])),
	}
}

func dnsmasqForm(server *nameserver) string {
	return fmt.Sprintf("%s#%d", server.addr.Addr(), server.addr.Port())
}

// networkManager returns over D-Bus the same data that the hook gets.
func (w *world) networkManager(context.Context) (nm.Snapshot, error) {
	config := nm.DNSConfig{Interface: "eth0", Connection: "System eth0", Domains: []nm.Domain{{Name: dnsname.MustParse("corp.example")}}}
	for _, server := range w.upstreams {
		config.Nameservers = append(config.Nameservers, upstream.Server{Addr: server.addr})
	}
	snapshot := nm.Snapshot{Mode: "default", RcManager: "symlink", Configs: []nm.DNSConfig{config}}
	if _, err := os.Stat(hostdns.NewPaths(w.root).Snippet); err == nil {
		snapshot.RcManager = "unmanaged"
	}
	return snapshot, nil
}

// looker simulates a node with one interface, a default route and a NetworkManager.
func (w *world) looker() hostdns.Looker {
	route := &netstate.DefaultRoute{
		Interface: "eth0", Index: 2, Gateway: netip.AddrFrom4([4]byte{192, 0, 2, 1}), Source: nodeIP, Metric: 100, Table: 254,
	}
	return hostdns.Looker{
		Paths:          hostdns.NewPaths(w.root),
		NetworkManager: w.networkManager,
		Net: func(context.Context) (netstate.State, error) {
			return netstate.State{Addrs: []netstate.Addr{{Addr: nodeIP, Interface: "eth0", Index: 2, Up: true}}, Default4: route}, nil
		},
	}
}

// runner returns the dispatcher. The daemon's real address replaces the node IP, which no interface
// has.
func (w *world) runner() hostdns.Runner {
	return hostdns.Runner{
		Looker: w.looker(),
		Applier: hostdns.Applier{
			Answers: func(ctx context.Context, _ netip.AddrPort, patient bool) (string, error) {
				return hostdns.Probe(ctx, w.listen, patient)
			},
			TellNetworkManager: func(context.Context) error { return nil }, // the simulated one reads its snippet each time
		},
	}
}

func (w *world) daemonConfig(version string) daemon.Config {
	return daemon.Config{Root: w.root, Listen: []netip.AddrPort{w.listen}, Version: version, Looker: w.looker()}
}

// awaitDaemon returns when the daemon is ready, or with the reason why it cannot become ready.
func (w *world) awaitDaemon(ctx context.Context, stopped <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		status, err := control.FetchStatus(ctx, control.SocketPath(w.root))
		if err == nil && status.Ready {
			return nil
		}
		select {
		case err := <-stopped:
			return fmt.Errorf("starting the daemon: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("waiting for the daemon: %w", errors.Join(err, ctx.Err()))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (w *world) read(name string) string {
	text, err := os.ReadFile(filepath.Join(w.root, name))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (w *world) upstreamQueries() int64 {
	return w.upstreams[0].queries.Load() + w.upstreams[1].queries.Load()
}

func (w *world) killFirstUpstream() { w.upstreams[0].isDown.Store(true) }
