package nameserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// LocalTimeout bounds the wait for the answer of a node-dns of this host. A free address refuses at
// once.
const LocalTimeout = 150 * time.Millisecond

// maxIdentity bounds, in bytes, how much of a nameserver's own name is returned.
const maxIdentity = 64

// Identify asks a nameserver what it calls itself: version.bind in class CHAOS (RFC 4892), which
// node-dns, dnsmasq, unbound, BIND and CoreDNS answer without their upstreams. It sends one query
// over UDP and waits for its response until the deadline. Any response counts, because a nameserver
// may refuse to name itself. by is what the nameserver calls itself, in
// printable ASCII of at most 64 bytes, or "". The error is that of the socket: one that wraps
// os.ErrDeadlineExceeded means silence, ECONNREFUSED that nothing listens. dialer may bind the
// socket. Identify is safe for concurrent use.
func Identify(ctx context.Context, dialer *net.Dialer, at netip.AddrPort, deadline time.Time) (by string, err error) {
	query, err := newQuery()
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
		if isResponse(buf[:n], query) {
			return nameIn(buf[:n]), nil
		}
	}
}

// IsNodeDNS reports whether a nameserver calls itself node-dns.
func IsNodeDNS(by string) bool { return by == "node-dns" || strings.HasPrefix(by, "node-dns ") }

// OnlyThisHost is the text of the Extended DNS Error (RFC 8914) with which node-dns refuses to say
// its name to other hosts and to pods.
const OnlyThisHost = "only for this host"

// AnotherAnswers begins the reason that WhyNotNodeDNS returns if another nameserver answers.
const AnotherAnswers = "another nameserver answers"

// WhyNotNodeDNS returns why the result of Identify, which waited for so long, does not show that
// node-dns answers at an address, or "" if it does. It is pure.
func WhyNotNodeDNS(at netip.Addr, by string, err error, waited time.Duration) string {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("node-dns does not answer at %s within %v", at, waited)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("node-dns does not listen on %s", at)
	case err != nil:
		return fmt.Sprintf("cannot query %s: %v", at, err)
	case by == "":
		return AnotherAnswers + " at " + at.String()
	case !IsNodeDNS(by):
		return fmt.Sprintf("%s at %s: %s", AnotherAnswers, at, by)
	}
	return ""
}

// question is version.bind TXT in class CHAOS, after the header (RFC 1035 section 4.1.2).
const question = "\x07version\x04bind\x00\x00\x10\x00\x03"

const (
	headerSize = 12 // RFC 1035 section 4.1.1
	fixedSize  = 10 // type, class, TTL and length of a record after its owner, section 4.1.3
	typeTXT    = 16
)

// afterID is a query after its ID: the header, without any flag, and the question.
const afterID = "\x00\x00" + "\x00\x01" + "\x00\x00\x00\x00\x00\x00" + question

// IsProbe reports whether a message is a query of Identify. Other programs that ask for
// version.bind, such as dig, request recursion or send an OPT record.
func IsProbe(message []byte) bool {
	return len(message) == len(afterID)+2 && string(message[2:]) == afterID
}

// newQuery returns a query with a random ID. The message is written by hand, because a library for
// it made NetworkManager's hook, which starts for each event, 13 KB larger and a tenth of a
// millisecond slower. crypto/rand and crypto/sha256 made it 168 KB larger.
func newQuery() ([]byte, error) {
	query := append(make([]byte, 2, 2+len(afterID)), afterID...)
	for {
		_, err := unix.Getrandom(query[:2], 0)
		if !errors.Is(err, unix.EINTR) { // only while the kernel starts
			return query, err
		}
	}
}

// isResponse reports whether a message is a response with the query's ID.
func isResponse(message, query []byte) bool {
	return len(message) >= headerSize && message[2]&0x80 != 0 && message[0] == query[0] && message[1] == query[1]
}

// nameIn returns the text of the first answer in printable ASCII, or "" if that is no TXT record.
func nameIn(response []byte) string {
	rest, ok := bytes.CutPrefix(response[headerSize:], []byte(question))
	if !ok || binary.BigEndian.Uint16(response[6:]) == 0 {
		return ""
	}
	rest = afterName(rest)
	if len(rest) < fixedSize || binary.BigEndian.Uint16(rest) != typeTXT {
		return ""
	}
	size := int(binary.BigEndian.Uint16(rest[fixedSize-2:]))
	if rest = rest[fixedSize:]; len(rest) < size {
		return ""
	}
	var text []byte
	for data := rest[:size]; len(data) > 0; { // character-strings, RFC 1035 section 3.3
		end := 1 + int(data[0])
		if len(data) < end {
			return ""
		}
		for _, c := range data[1:end] {
			if ' ' <= c && c <= '~' {
				text = append(text, c)
			}
		}
		data = data[end:]
	}
	return strings.TrimSpace(string(text[:min(len(text), maxIdentity)]))
}

// afterName returns what follows the name at the beginning of data, or nothing if the name is
// incomplete (RFC 1035 section 4.1.4).
func afterName(data []byte) []byte {
	for len(data) > 0 {
		size := int(data[0])
		switch {
		case size == 0:
			return data[1:]
		case size >= 0xc0 && len(data) >= 2:
			return data[2:]
		case size >= 0x40 || len(data) <= size:
			return nil
		}
		data = data[1+size:]
	}
	return nil
}
