package exchange

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const world = `
	www.example. 300 IN A 192.0.2.80
`

// newTestDialer returns a Dialer that trusts the server and logs to log.
func newTestDialer(t *testing.T, s *dnstest.Server, log io.Writer) *Dialer {
	t.Helper()
	var work sync.WaitGroup
	t.Cleanup(work.Wait)
	return NewDialer(DialerConfig{
		Timeout: 20 * time.Second, RootCAs: s.CertPool(), Work: &work, Recovered: func(func(error)) {},
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
}

// ask queries the address of www.example.
func ask(c *Channel) (*dns.Msg, error) {
	query, err := Question{Name: "www.example.", Type: dns.TypeA, Class: dns.ClassINET, RD: true}.wire(Padded, DefaultUDPSize)
	if err != nil {
		return nil, err
	}
	ctx, ended := context.WithCancel(context.Background())
	var m *dns.Msg
	w := &Waiter{Query: query, Deliver: func(response *dns.Msg, why error) { m, err = response, why; ended() }}
	c.Begin(w)
	<-ctx.Done()
	c.End(w)
	return m, err
}

func mustAnswer(t *testing.T, c *Channel) {
	t.Helper()
	m, err := ask(c)
	if err != nil || len(m.Answer) != 1 {
		t.Errorf("got %v, %v", m, err)
	}
}

// await waits for a condition that another goroutine fulfills.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("timeout after 20 s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
