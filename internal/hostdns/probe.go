package hostdns

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	probeTry   = 150 * time.Millisecond // timeout of the first query; the daemon needs less than 1 ms, but a busy node takes longer
	probeLimit = 800 * time.Millisecond // total wait for an answer or a restarting daemon
	probePause = 25 * time.Millisecond  // pause between tries
)

// silence gives a short reason why the nameserver did not answer: package net's own text repeats
// addresses and ports.
func silence(nameserver netip.AddrPort, err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return fmt.Errorf("%s does not answer: %w", nameserver, err)
}

// Probe sends the local nameserver a query that it answers without its upstreams: version.bind in
// class CHAOS, which node-dns, dnsmasq, unbound, BIND and CoreDNS all know. Any response counts,
// because after a rollback dnsmasq must answer. by is what the nameserver calls itself, or "".
//
// Probe retries for 0.8 s, because an answer may be lost, or late while the node boots. If nothing
// listens, the kernel reports that at once. Only a patient probe retries then: the daemon may be
// restarting.
func Probe(ctx context.Context, nameserver netip.AddrPort, patient bool) (by string, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	end, _ := ctx.Deadline()
	try := probeTry
	var reason error
	for {
		by, err := probeOnce(ctx, nameserver, try)
		if err == nil {
			return by, nil
		}
		if reason == nil || time.Now().Before(end) { // otherwise only the time was up
			reason = err
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			try *= 2
		case !patient:
			return "", silence(nameserver, reason)
		}
		select {
		case <-ctx.Done():
			return "", silence(nameserver, reason)
		case <-time.After(probePause):
		}
	}
}

func probeOnce(ctx context.Context, nameserver netip.AddrPort, try time.Duration) (by string, err error) {
	query, id, err := probeQuery()
	if err != nil {
		return "", err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", nameserver.String())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline := time.Now().Add(try)
	if limit, ok := ctx.Deadline(); ok && limit.Before(deadline) {
		deadline = limit
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := conn.Write(query); err != nil {
		return "", err
	}
	buf := make([]byte, 512)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return "", err
		}
		var parser dnsmessage.Parser
		if header, err := parser.Start(buf[:n]); err == nil && header.Response && header.ID == id {
			return versionText(&parser), nil
		}
	}
}

// maxVersion bounds, in bytes, how much of a nameserver's own name is shown.
const maxVersion = 64

// versionText returns the text of a response's first answer in printable ASCII, or "".
func versionText(response *dnsmessage.Parser) string {
	if err := response.SkipAllQuestions(); err != nil {
		return ""
	}
	header, err := response.AnswerHeader()
	if err != nil || header.Type != dnsmessage.TypeTXT {
		return ""
	}
	txt, err := response.TXTResource()
	if err != nil {
		return ""
	}
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, strings.Join(txt.TXT, ""))
	return strings.TrimSpace(text[:min(len(text), maxVersion)])
}

// isNodeDNS reports whether a nameserver calls itself node-dns.
func isNodeDNS(by string) bool { return by == "node-dns" || strings.HasPrefix(by, "node-dns ") }

func probeQuery() ([]byte, uint16, error) {
	var random [2]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, 0, fmt.Errorf("generating a message ID: %w", err)
	}
	id := binary.BigEndian.Uint16(random[:])
	name, err := dnsmessage.NewName("version.bind.")
	if err != nil {
		return nil, 0, err
	}
	message := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassCHAOS}},
	}
	query, err := message.Pack()
	return query, id, err
}
