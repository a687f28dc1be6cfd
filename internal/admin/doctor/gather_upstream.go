package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

const (
	// maxProbed limits the number of servers that are queried, because a configuration may name
	// thousands. All are queried at once, over four sockets each, because a dead one takes four
	// seconds.
	maxProbed = 32
	// bufferSize is the EDNS buffer size (RFC 9715 and DNS flag day 2020).
	bufferSize = 1232
)

// upstreams queries each of the daemon's servers or, if the daemon does not run, those it would
// use.
func (g *gathering) upstreams(ctx context.Context) {
	probes := g.servers()
	if len(probes) > maxProbed {
		g.unseen("%d upstream nameservers were not tested; only the first %d were", len(probes)-maxProbed, maxProbed)
		probes = probes[:maxProbed]
	}
	var asking sync.WaitGroup
	for i := range probes {
		asking.Go(func() { probes[i].ask(ctx) })
	}
	asking.Wait()
	g.s.Upstreams = probes
}

func (g *gathering) servers() []Probe {
	var all []Probe
	add := func(domain, server, source string) {
		i := slices.IndexFunc(all, func(p Probe) bool { return p.Server == server })
		if i < 0 {
			all = append(all, Probe{Server: server, Domains: []string{domain}, Source: source})
		} else if !slices.Contains(all[i].Domains, domain) {
			all[i].Domains = append(all[i].Domains, domain)
		}
	}
	if g.s.Status != nil {
		for _, route := range g.s.Status.Routes {
			for _, server := range route.Servers {
				add(route.Domain, server.Address, route.Source)
			}
		}
		return all
	}
	config, captured := g.s.Host.State.Config, g.s.Host.Plan.Selection.Set
	upstreams := config.Upstreams
	if len(upstreams) == 0 {
		upstreams = captured.Servers
	}
	addAll := func(domain string, servers []nameserver.Server) {
		for _, server := range servers {
			add(domain, server.String(), "")
		}
	}
	addAll(".", upstreams)
	for _, route := range config.Routes {
		addAll(route.Domain.String(), route.Servers)
	}
	for _, route := range captured.Routes {
		addAll(route.Domain.String(), route.Servers)
	}
	return all
}

// ask fills the probe. Any answer is accepted, because a site's server may know nothing about the
// root.
func (p *Probe) ask(ctx context.Context) {
	server, err := nameserver.Parse(p.Server)
	if err != nil {
		p.UDP.Err, p.EDNS.Err, p.TCP.Err = err, err, err
		return
	}
	p.TLS = server.TLS
	question := dns.Question{Name: dns.Fqdn(p.Domains[0]), Qtype: dns.TypeSOA, Qclass: dns.ClassINET}
	if p.TLS {
		p.TCP = exchange(ctx, server, "tcp-tls", question, bufferSize, false)
		p.Proven = provenName(p.TCP.Err, nil)
		return
	}
	var all sync.WaitGroup
	all.Go(func() { p.EDNS = patient(ctx, server, question, bufferSize, false) })
	all.Go(func() { p.UDP = patient(ctx, server, question, 0, false) })
	all.Go(func() { p.TCP = exchange(ctx, server, "tcp", question, bufferSize, false) })
	if slices.Contains(p.Domains, ".") { // the root's keys with their signature: 1139 bytes in 2026
		all.Go(func() {
			p.Large = patient(ctx, server, dns.Question{Name: ".", Qtype: dns.TypeDNSKEY, Qclass: dns.ClassINET}, bufferSize, true)
		})
	}
	all.Wait()
}

// provenName returns a name for which a refused certificate is valid according to roots, or "" if
// there is none. If roots is nil, the system's roots are used. crypto/x509 checks the name before
// the chain, so a self-signed certificate is refused for its names too. A wildcard is not the name
// of a nameserver.
func provenName(refusal error, roots *x509.CertPool) string {
	var refused *tls.CertificateVerificationError
	var hostname x509.HostnameError
	if !errors.As(refusal, &refused) || !errors.As(refusal, &hostname) || len(refused.UnverifiedCertificates) == 0 {
		return ""
	}
	leaf := refused.UnverifiedCertificates[0]
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range refused.UnverifiedCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	for _, name := range certifiedNames(leaf) {
		options.DNSName = name
		if _, err := leaf.Verify(options); err == nil && !strings.Contains(name, "*") {
			return name
		}
	}
	return ""
}

// certifiedNames returns the names and addresses in a certificate.
func certifiedNames(c *x509.Certificate) []string {
	return append(slices.Clone(c.DNSNames), control.Texts(c.IPAddresses)...)
}

// patient sends two queries over UDP, because a datagram may be lost.
func patient(ctx context.Context, server nameserver.Server, q dns.Question, buffer uint16, signed bool) Answer {
	answer := exchange(ctx, server, "udp", q, buffer, signed)
	if errors.Is(answer.Err, errSilent) {
		answer = exchange(ctx, server, "udp", q, buffer, signed)
	}
	return answer
}

func exchange(ctx context.Context, server nameserver.Server, network string, q dns.Question, buffer uint16, signed bool) Answer {
	m := newQuery(q)
	if buffer > 0 {
		m.SetEdns0(buffer, signed)
	}
	return send(ctx, server, network, m)
}

// exchangeCD requests an answer that the server has not validated: RFC 4035 section 3.2.2.
func exchangeCD(ctx context.Context, server nameserver.Server, q dns.Question) Answer {
	m := newQuery(q).SetEdns0(bufferSize, false)
	m.CheckingDisabled = true
	return send(ctx, server, "udp", m)
}

func newQuery(q dns.Question) *dns.Msg {
	m := &dns.Msg{Question: []dns.Question{q}}
	m.Id, m.RecursionDesired = dns.Id(), true
	return m
}

func send(ctx context.Context, server nameserver.Server, network string, m *dns.Msg) Answer {
	ctx, cancel := context.WithTimeout(ctx, upstreamPatience)
	defer cancel()
	name := server.Name
	if name == "" {
		name = server.Addr.Addr().WithZone("").String() // crypto/tls compares an address with the certificate's addresses
	}
	dialer := &net.Dialer{Timeout: upstreamPatience}
	if server.Source.IsValid() {
		dialer.LocalAddr = &net.UDPAddr{IP: server.Source.AsSlice()}
		if network != "udp" {
			dialer.LocalAddr = &net.TCPAddr{IP: server.Source.AsSlice()}
		}
	}
	client := dns.Client{Net: network, Dialer: dialer, TLSConfig: &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}}
	began := time.Now()
	response, _, err := client.ExchangeContext(ctx, m, server.Addr.String())
	if err != nil {
		return Answer{Err: plain(err)}
	}
	return Answer{
		Rcode: dns.RcodeToString[response.Rcode], EDNS: response.IsEdns0() != nil, Truncated: response.Truncated,
		Size: response.Len(), Took: time.Since(began), Records: len(response.Answer), EDE: control.ErrorsOf(response),
	}
}

var errSilent = fmt.Errorf("no answer within %v", upstreamPatience)

// plain returns err without addresses and ports, which the text of package net contains twice.
func plain(err error) error {
	var op *net.OpError
	var call *os.SyscallError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return errSilent
	case errors.As(err, &call):
		return call.Err
	case errors.As(err, &op):
		return op.Err
	}
	return err
}

// api asks the API server like the daemon.
func (g *gathering) api(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a := &g.s.API
	if a.Rights, a.Err = CheckRights(ctx, g.root, g.s.Host.State.Config); a.Kubeconfig == "" {
		return
	}
	credentials, err := nodeconfig.ReadCredentials(nodeconfig.DefaultPaths(g.root), a.Kubeconfig)
	a.Server = credentials.Server
	if err == nil && credentials.ClientCertificate != nil {
		var certificate *x509.Certificate
		if certificate, err = x509.ParseCertificate(credentials.ClientCertificate); err != nil {
			err = fmt.Errorf("reading the client certificate: %w", err)
		} else {
			a.NotBefore, a.NotAfter = certificate.NotBefore, certificate.NotAfter
		}
	}
	a.CertErr = err
}
