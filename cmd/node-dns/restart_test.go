package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/control"
	"github.com/node-dns/node-dns/internal/dnstest"
	"github.com/node-dns/node-dns/internal/kubetest"
	"github.com/node-dns/node-dns/internal/lab"
)

// shop is a small cluster.
const shop = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: ` + dnstest.MixedService + `, selector: {app: web}, ports: [{name: http, port: 80}]}
`

// service is a node-dns that a service manager keeps running.
type service struct {
	*lab.Manager
	t    *testing.T
	root string
	at   netip.AddrPort
	site *dnstest.Server // knows every name
	slow *dnstest.Server // knows every name below slow.example, after a while
}

// newService starts node-dns with a cluster, an upstream nameserver, and one that takes so long.
func newService(t *testing.T, room int, slow time.Duration) *service {
	t.Helper()
	s := &service{
		t: t, root: lab.ShortDir(t), at: freePort(t),
		site: dnstest.NewServer(t, dnstest.MixedSite), slow: dnstest.NewServer(t, dnstest.MixedSlow),
	}
	s.slow.SetFaults(dnstest.Faults{Delay: slow})
	api := kubetest.NewServer(t)
	api.Apply(shop)
	s.write("/etc/node-dns/kubeconfig", string(api.Kubeconfig()))
	s.write("/etc/node-dns/node-dns.yaml", "routes: [{domain: slow.example, servers: ["+s.slow.Addr().String()+"]}]\n")
	s.Manager = lab.NewManager(t, room, []string{"DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nowhere"}, "node-dns", "--root", s.root, "serve",
		"--listen", s.at.String(), "--upstream", s.site.Addr().String())
	s.Start()
	s.await("the cluster to be known", func() bool {
		status, err := control.FetchStatus(t.Context(), control.SocketPath(s.root))
		return err == nil && status.Cluster.Resolver != nil && status.Cluster.Resolver.Phase == "synced"
	})
	return s
}

func (s *service) write(path, text string) {
	s.t.Helper()
	path = filepath.Join(s.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) await(what string, done func() bool) {
	s.t.Helper()
	if !lab.Poll(20*time.Second, done) {
		s.t.Fatalf("waited in vain for %s", what)
	}
}

// freePort is a port of loopback that nobody has, over UDP and TCP.
func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	for range 100 {
		udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		at := udp.LocalAddr().(*net.UDPAddr).AddrPort()
		tcp, err := net.Listen("tcp4", at.String())
		udp.Close()
		if err == nil {
			tcp.Close()
			return at
		}
	}
	t.Fatal("no port is free for UDP and TCP")
	return netip.AddrPort{}
}

// load asks while something happens, and wants every answer.
func (s *service) load(rate int, during func()) {
	s.t.Helper()
	loading, err := dnstest.Load{Server: s.at, Rate: rate, Asks: dnstest.Mixed()}.Start()
	if err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	during()
	time.Sleep(300 * time.Millisecond)
	tally := loading.Stop()
	s.t.Logf("%v; %d found no room at the server", tally, dnstest.SocketDrops(s.at.Port()))
	if tally.Lost > 0 || tally.Wrong > 0 {
		s.t.Error("not all were answered as they should be")
	}
}

// TestRestarts: no query is lost or answered wrongly while the daemon is restarted ten times.
func TestRestarts(t *testing.T) {
	s := newService(t, 100, 400*time.Millisecond)
	s.load(1000, func() {
		for range 10 {
			if err := s.End(syscall.SIGTERM); err != nil {
				t.Errorf("it ended by %v", err)
			}
			s.Start()
			time.Sleep(200 * time.Millisecond)
		}
	})
	if got, want := s.Held(), []string{s.name("tcp"), s.name("udp"), "queries-in-flight"}; !sameSet(got, want) {
		t.Errorf("the service manager holds %q, expected %q", got, want)
	}
}

// TestKills: nor while it is killed twenty times.
func TestKills(t *testing.T) {
	s := newService(t, 100, 100*time.Millisecond)
	if err := s.End(syscall.SIGTERM); err != nil { // it leaves what it knows of the cluster
		t.Errorf("it ended by %v", err)
	}
	s.Start()
	s.load(500, func() {
		for range 20 {
			if err := s.End(syscall.SIGKILL); err == nil {
				t.Error("it was not killed")
			}
			time.Sleep(100 * time.Millisecond) // RestartSec= of node-dns.service
			s.Start()
			time.Sleep(300 * time.Millisecond)
		}
	})
}

// name is the FDNAME of one of the sockets.
func (s *service) name(proto string) string {
	return fmt.Sprintf("%s-%s-%d-0", proto, s.at.Addr(), s.at.Port())
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return strings.Join(a, " ") == strings.Join(b, " ")
}
