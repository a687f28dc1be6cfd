package exchange

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// errTooLong cannot happen for a question: 65535 bytes are 256 names.
var errTooLong = errors.New("message longer than 65535 bytes")

// AskTCP sends a query over a new connection. It calls connected once the connection is open.
func (d *Dialer) AskTCP(ctx context.Context, to nameserver.Server, w *Waiter, connected func()) (*dns.Msg, error) {
	conn, err := dialBy(ctx, "tcp", to, 0)
	if err != nil {
		return nil, err
	}
	connected()
	defer conn.Close()
	defer endWith(ctx, conn)()
	setID(w.Query, newID())
	if err := writeMessage(conn, w.Query); err != nil {
		return nil, err
	}
	for range mostIgnored {
		msg, err := d.receiveTCP(ctx, conn, w.Query, w.Spent)
		if !errors.Is(err, errIgnored) {
			return msg, err
		}
		d.Ignored.Add(1)
	}
	return nil, ErrStrays
}

// mostIgnored is the maximum number of unrelated messages on a connection.
const mostIgnored = 16

// endWith makes blocked operations on conn return as soon as ctx ends. The caller must call stop
// when it no longer uses conn.
func endWith(ctx context.Context, conn net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0)) // fails only on a closed connection
	})
}

// Limits for long messages. Each may have 64 KiB, and parsing takes sixteen times as much memory.
const (
	longMessage  = 4 << 10         // bytes
	longTime     = 2 * time.Second // to receive a long message beyond its first longMessage bytes
	mostReceived = 128             // received at the same time, perhaps slowly
	mostRead     = 8               // parsed at the same time, if there are enough CPUs
)

// readAtATime returns the number of long messages parsed at the same time. If there are several
// CPUs, half of them stay free for other clients. A long message takes up to 3 ms of CPU time.
func readAtATime(processors int) int { return max(1, min(mostRead, processors/2)) }

// errIgnored means that a message is not the response to the query.
var errIgnored = errors.New("not the response to the query")

// receiveTCP reads the next message and returns it if it is the response to the query.
func (d *Dialer) receiveTCP(ctx context.Context, conn net.Conn, query []byte, spent *Spending) (*dns.Msg, error) {
	size, err := readLength(conn)
	if err != nil {
		return nil, err
	}
	response := make([]byte, min(size, longMessage))
	if _, err := io.ReadFull(conn, response); err != nil {
		return nil, err
	}
	if size > longMessage {
		select {
		case d.received <- struct{}{}:
			defer func() { <-d.received }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if response, err = readRest(conn, response, size); err != nil {
			return nil, err
		}
	}
	spent.add(size)
	if size > longMessage {
		d.read <- struct{}{}
		defer func() { <-d.read }()
	}
	msg, err := decodeStream(query, response)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIgnored, err)
	}
	return msg, nil
}

// readRest reads the rest of a long message with size bytes in total. Its timeout keeps a slow
// server from holding a slot for long.
func readRest(conn net.Conn, begin []byte, size int) (whole []byte, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(longTime)); err != nil {
		return nil, err
	}
	whole = make([]byte, size)
	_, err = io.ReadFull(conn, whole[copy(whole, begin):])
	return whole, err
}

// writeMessage writes the length and the message in one segment (RFC 7766 section 8).
func writeMessage(w io.Writer, msg []byte) error {
	if len(msg) > math.MaxUint16 {
		return errTooLong
	}
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(msg)), uint16(len(msg)))
	_, err := w.Write(append(framed, msg...))
	return err
}

func readLength(r io.Reader) (int, error) {
	var length [2]byte
	_, err := io.ReadFull(r, length[:])
	return int(binary.BigEndian.Uint16(length[:])), err
}

func readMessage(r io.Reader) ([]byte, error) {
	size, err := readLength(r)
	if err != nil {
		return nil, err
	}
	msg := make([]byte, size)
	if _, err := io.ReadFull(r, msg); err != nil {
		return nil, err
	}
	return msg, nil
}

// Spending counts the bytes received over TCP and TLS for a question. Datagrams are limited by
// their size and not counted. It may be used concurrently. A nil Spending counts nothing.
type Spending struct{ octets atomic.Int64 }

// Total returns the sum so far, in bytes.
func (s *Spending) Total() int { return int(s.octets.Load()) }

func (s *Spending) add(octets int) {
	if s != nil {
		s.octets.Add(int64(octets))
	}
}
