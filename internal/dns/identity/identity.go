// Package identity asks a nameserver what it calls itself: version.bind in class CHAOS (RFC 4892),
// which node-dns, dnsmasq, unbound, BIND and CoreDNS answer without their upstreams.
package identity

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// maxName bounds, in bytes, how much of a nameserver's own name is returned.
const maxName = 64

// Ask sends one query over UDP and waits for its response until the deadline. Any response counts,
// because a nameserver may refuse to name itself. by is what the nameserver calls itself, in
// printable ASCII of at most 64 bytes, or "". The error is that of the socket: one that wraps
// os.ErrDeadlineExceeded means silence, ECONNREFUSED that nothing listens. dialer may bind the
// socket. Ask is safe for concurrent use.
func Ask(ctx context.Context, dialer *net.Dialer, at netip.AddrPort, deadline time.Time) (by string, err error) {
	query, id, err := newQuery()
	if err != nil {
		return "", err
	}
	conn, err := dialer.DialContext(ctx, "udp", at.String())
	if err != nil {
		return "", err
	}
	defer conn.Close()
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
			return nameIn(&parser), nil
		}
	}
}

// IsNodeDNS reports whether a nameserver calls itself node-dns.
func IsNodeDNS(by string) bool { return by == "node-dns" || strings.HasPrefix(by, "node-dns ") }

func newQuery() (query []byte, id uint16, err error) {
	var random [2]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, 0, fmt.Errorf("generating a message ID: %w", err)
	}
	id = binary.BigEndian.Uint16(random[:])
	name, err := dnsmessage.NewName("version.bind.")
	if err != nil {
		return nil, 0, err
	}
	message := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassCHAOS}},
	}
	query, err = message.Pack()
	return query, id, err
}

// nameIn returns the text of a response's first answer in printable ASCII, or "".
func nameIn(response *dnsmessage.Parser) string {
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
	return strings.TrimSpace(text[:min(len(text), maxName)])
}
