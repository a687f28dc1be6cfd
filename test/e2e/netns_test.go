package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// netns is a network namespace: a node or a pod. It has no name on the host, so the kernel removes
// it when the test process and the programs in it have ended, even after a crash.
type netns struct {
	t    testing.TB
	name string
	file *os.File
}

// newNetNS makes a network namespace with loopback up.
func newNetNS(t testing.TB, name string) *netns {
	t.Helper()
	if os.Geteuid() != 0 {
		lab.Skip(t, "needs root to make network namespaces")
	}
	lab.NeedPrograms(t, "ip", "nsenter")
	n := &netns{t: t, name: name}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making network namespace %s: %w", name, err)
		}
		var err error
		n.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.file.Close() })
	n.run("ip", "link", "set", "lo", "up")
	return n
}

// path is the namespace's file, for programs that the test starts.
func (n *netns) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd()) }

// argv returns the arguments that run a program in the namespace. nsenter does not fork, so signals
// and Pdeathsig reach the program itself.
func (n *netns) argv(argv []string) []string {
	return append([]string{"nsenter", "--net=" + n.path(), "--"}, argv...)
}

// run runs a program in the namespace, waits until it ends, and returns its output.
func (n *netns) run(argv ...string) string {
	n.t.Helper()
	out, err := n.try(argv...)
	if err != nil {
		n.t.Fatalf("%s: %s: %v\n%s", n.name, strings.Join(argv, " "), err, out)
	}
	return out
}

// try is run for commands that may fail.
func (n *netns) try(argv ...string) (string, error) {
	argv = n.argv(argv)
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	return string(out), err
}

// start starts a program in the namespace. It ends no later than the test. Its output is logged if
// the test fails.
func (n *netns) start(argv ...string) *lab.Process {
	n.t.Helper()
	p, err := lab.Beside(lab.Command{Argv: n.argv(argv)})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		p.Stop()
		if n.t.Failed() {
			n.t.Logf("output of %s in %s:\n%s", argv[0], n.name, tail(p.Output(), 16<<10))
		}
	})
	return p
}

// sysctl sets a kernel parameter of the namespace: /proc/sys/net shows the reader's namespace.
func (n *netns) sysctl(name, value string) {
	n.t.Helper()
	n.inside(func() error {
		return os.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0)
	})
}

// inside calls f in the namespace. Sockets that f opens stay there, even if others use them later.
// Goroutines that f starts do not run in the namespace. f must not end the test.
func (n *netns) inside(f func() error) {
	n.t.Helper()
	if err := n.tryInside(f); err != nil {
		n.t.Fatalf("%s: %v", n.name, err)
	}
}

func (n *netns) tryInside(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering network namespace %s: %w", n.name, err)
		}
		return f()
	})
}

// onThread calls f on a thread of its own, which ends with it.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine
		err := errors.New("the function did not return")
		defer func() { done <- err }()
		err = f()
	}()
	return <-done
}

// web returns a client that connects from the namespace, for each request again.
func (n *netns) web() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
			err = n.tryInside(func() error {
				conn, err = new(net.Dialer).DialContext(ctx, network, addr)
				return err
			})
			return conn, err
		},
	}}
}

// serve starts a nameserver in the namespace, over UDP and TCP. See dnstest.StartAt.
func (n *netns) serve(addr netip.AddrPort, records string) *dnstest.Server {
	n.t.Helper()
	var server *dnstest.Server
	n.inside(func() (err error) {
		server, err = dnstest.StartAt(addr, records)
		return err
	})
	n.t.Cleanup(server.Close)
	return server
}

// ask queries the A records of a name over "udp" or "tcp", once, and returns the first address.
func (n *netns) ask(network string, server netip.AddrPort, name string, timeout time.Duration) (netip.Addr, error) {
	query := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA)
	client := dns.Client{Net: network, Timeout: timeout}
	var response *dns.Msg
	err := n.tryInside(func() (err error) {
		response, _, err = client.Exchange(query, server.String())
		return err
	})
	if err != nil {
		return netip.Addr{}, err
	}
	return firstAddr(response)
}

// firstAddr returns the address of a response's first A record.
func firstAddr(m *dns.Msg) (netip.Addr, error) {
	for _, record := range m.Answer {
		if a, ok := record.(*dns.A); ok {
			addr, _ := netip.AddrFromSlice(a.A.To4())
			return addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no A record: %s with %d records", dns.RcodeToString[m.Rcode], len(m.Answer))
}
