package exchange

import (
	"crypto/tls"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// newTestChannel returns a server and a Channel to it.
func newTestChannel(t *testing.T) (*dnstest.Server, *Channel) {
	t.Helper()
	s := dnstest.NewTLSServer(t, world)
	c := newTestDialer(t, s, io.Discard).TLS(nameserver.Server{Addr: s.Addr(), TLS: true, Name: dnstest.TLSName})
	t.Cleanup(c.Close)
	return s, c
}

// current returns the connection for the next question.
func (c *Channel) current() *Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream
}

// TestTLSRetired: a server that is no longer used still answers pending questions, and its
// connection closes afterwards.
func TestTLSRetired(t *testing.T) {
	s, c := newTestChannel(t)
	s.SetFaults(dnstest.Faults{Delay: 300 * time.Millisecond})
	var client sync.WaitGroup
	client.Go(func() { mustAnswer(t, c) })
	await(t, "in flight", func() bool { return s.Queries() == 1 })
	old := c.current()
	c.Retire()
	client.Wait()
	await(t, "the connection ends", old.Ended)
}

// TestTLSResumption: the next connection resumes the session of the previous one, whichever side
// closed it, in TLS 1.3 and 1.2, with "dot" in ALPN.
func TestTLSResumption(t *testing.T) {
	rows := []struct {
		name string
		most uint16
	}{{"TLS 1.3", tls.VersionTLS13}, {"TLS 1.2", tls.VersionTLS12}}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s, c := newTestChannel(t)
			c.config.MaxVersion = row.most
			for range 5 {
				mustAnswer(t, c)
				stream := c.current()
				said := stream.conn.(*tls.Conn).ConnectionState()
				if said.NegotiatedProtocol != alpn || said.Version != row.most {
					t.Errorf("protocol %q, %s", said.NegotiatedProtocol, tls.VersionName(said.Version))
				}
				s.CloseConnections()
				await(t, "the connection is gone", stream.Ended)
			}
			if all, resumed := c.dialer.Handshakes.Load(), c.dialer.Resumed.Load(); all != 5 || resumed != 4 {
				t.Errorf("%d of %d connections resumed", resumed, all)
			}
		})
	}
}

// TestTLSOld: TLS versions before 1.2 are disabled (RFC 8996), and the server's name is verified.
func TestTLSOld(t *testing.T) {
	_, c := newTestChannel(t)
	if c.config.MinVersion != tls.VersionTLS12 || c.config.InsecureSkipVerify {
		t.Errorf("minimum version %s, verified: %v", tls.VersionName(c.config.MinVersion), !c.config.InsecureSkipVerify)
	}
}
