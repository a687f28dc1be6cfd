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

// Direct asks one nameserver from this process, so that its answer can be compared with the daemon's, which is not involved.
type Direct struct {
	Server nameserver.Server // with TLS: over TLS
	TCP    bool              // not over UDP first
	// RootCAs check the certificates of TLS servers; nil: those of the system.
	RootCAs *x509.CertPool
}

// Bounds of one question to a server: the time of each try, and the tries over UDP, which loses messages. A client gives up after as long.
const (
	directTimeout = 2500 * time.Millisecond
	directTries   = 2
)

// errOtherQuestion is about a response that no server that works sends.
var errOtherQuestion = errors.New("the response is to another question")

// Query asks the server. A server that does not answer is no error: Answer.Failure says why.
func (d Direct) Query(ctx context.Context, question Question) (Answer, error) {
	m, err := question.Message()
	if err != nil {
		return Answer{}, MistakeError{err.Error()}
	}
	switch m.Question[0].Qtype {
	case dns.TypeAXFR, dns.TypeIXFR:
		return Answer{}, MistakeError{fmt.Sprintf("%s: query reads one message, and a zone transfer has many; use dig", question.Type)}
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

// exchange goes on over TCP where a response over UDP is truncated, as RFC 7766 section 5 has it.
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

// transports are what package dns calls networks.
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

// certificateName is what the certificate must have: the server's name, or else its address.
func (d Direct) certificateName() string {
	if d.Server.Name != "" {
		return d.Server.Name
	}
	return d.Server.Addr.Addr().WithZone("").String()
}

// answers reports whether a response is to a query. One that says that the server could not read the query may have no question.
func answers(m, response *dns.Msg) bool {
	if len(response.Question) == 0 {
		return response.Rcode != dns.RcodeSuccess && response.Rcode != dns.RcodeNameError
	}
	asked, said := m.Question[0], response.Question[0]
	return response.Response && len(response.Question) == 1 && asked.Qtype == said.Qtype && asked.Qclass == said.Qclass &&
		strings.EqualFold(asked.Name, said.Name)
}
