package control

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Direct queries one nameserver from this process, without the daemon, so that its answer can be
// compared with the daemon's.
type Direct struct {
	Server nameserver.Server // queried over TLS if the server has TLS set
	TCP    bool              // skips UDP
	// RootCAs verify the certificates of TLS servers. nil means the system's.
	RootCAs *x509.CertPool
}

// Limits of one query: the timeout of each try, and the number of tries over UDP, which can lose
// messages. Together they match a client's timeout.
const (
	directTimeout = 2500 * time.Millisecond
	directTries   = 2
)

// errOtherQuestion reports a response that no working server sends.
var errOtherQuestion = errors.New("the response does not match the question")

// Query queries the server. If the server does not answer, Query returns no error, and
// Answer.Failure holds the reason.
func (d Direct) Query(ctx context.Context, question Question) (Answer, error) {
	m, err := question.Message()
	if err != nil {
		return Answer{}, MistakeError{err.Error()}
	}
	switch m.Question[0].Qtype {
	case dns.TypeAXFR, dns.TypeIXFR:
		return Answer{}, MistakeError{fmt.Sprintf("%s: zone transfers are not supported; use dig", question.Type)}
	}
	began := time.Now()
	trace := newTracer(question)
	response, transport, err := d.exchange(ctx, m, trace)
	if ctx.Err() != nil {
		return Answer{}, fmt.Errorf("asking %s: %w", d.Server, ctx.Err())
	}
	answer := NewAnswer(m.Question[0], response)
	if err != nil {
		answer.Failure = exchange.Reason(err)
	}
	answer.Took = time.Since(began)
	answer.Trace = trace.noted()
	answer.By = By{Who: "server", Server: d.Server.String(), Transport: transport}
	return answer, nil
}

// exchange retries over TCP if a response over UDP is truncated (RFC 7766 section 5).
func (d Direct) exchange(ctx context.Context, m *dns.Msg, trace *tracer) (response *dns.Msg, transport string, err error) {
	switch {
	case d.Server.TLS:
		response, err = d.try(ctx, "tcp-tls", m, trace)
		return response, "TLS", err
	case d.TCP:
		response, err = d.try(ctx, "tcp", m, trace)
		return response, "TCP", err
	}
	for range directTries {
		if response, err = d.try(ctx, "udp", m, trace); !exchange.IsSilence(err) {
			break
		}
	}
	if err != nil || !response.Truncated {
		return response, "UDP", err
	}
	response, err = d.try(ctx, "tcp", m, trace)
	return response, "TCP (truncated over UDP)", err
}

func (d Direct) try(ctx context.Context, network string, m *dns.Msg, trace *tracer) (*dns.Msg, error) {
	trace.note("asks %s over %s", d.Server, transports[network])
	response, err := d.tryOnce(ctx, network, m)
	switch {
	case err != nil:
		trace.note("%s fails: %s", d.Server, exchange.Reason(err))
	case response.Truncated:
		trace.note("%s answers %s, truncated", d.Server, dns.RcodeToString[response.Rcode])
	default:
		trace.note("%s answers %s", d.Server, dns.RcodeToString[response.Rcode])
	}
	return response, err
}

// transports maps the network names of package dns to display names.
var transports = map[string]string{"udp": "UDP", "tcp": "TCP", "tcp-tls": "TLS"}

func (d Direct) tryOnce(ctx context.Context, network string, m *dns.Msg) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	client := dns.Client{Net: network, Timeout: directTimeout, TLSConfig: &tls.Config{
		ServerName: d.certificateName(), RootCAs: d.RootCAs, MinVersion: tls.VersionTLS12,
	}}
	response, _, err := client.ExchangeContext(ctx, m, d.Server.Addr.String())
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return nil, exchange.ErrTimeout
	case err != nil:
		return nil, err
	case !answers(m, response):
		return nil, errOtherQuestion
	}
	return response, nil
}

// certificateName returns the name that the certificate must contain: the server's name, or its
// address if there is none.
func (d Direct) certificateName() string {
	if d.Server.Name != "" {
		return d.Server.Name
	}
	return d.Server.Addr.Addr().WithZone("").String()
}

// answers reports whether response belongs to m. A response that reports an unreadable query may
// have no question section.
func answers(m, response *dns.Msg) bool {
	if len(response.Question) == 0 {
		return response.Rcode != dns.RcodeSuccess && response.Rcode != dns.RcodeNameError
	}
	asked, said := m.Question[0], response.Question[0]
	return response.Response && len(response.Question) == 1 && asked.Qtype == said.Qtype && asked.Qclass == said.Qclass &&
		strings.EqualFold(asked.Name, said.Name)
}
