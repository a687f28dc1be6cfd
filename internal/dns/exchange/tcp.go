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

// errTooLong cannot come of a question: 65535 octets are 256 names.
var errTooLong = errors.New("message longer than 65535 octets")

// AskTCP asks over a connection of its own, and calls connected once there is one.
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

// mostIgnored is how many messages that are no response a connection may bring.
const mostIgnored = 16

// endWith makes what waits on conn return as soon as ctx ends. The function it
// returns must be called when conn is no longer waited on.
func endWith(ctx context.Context, conn net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0)) // fails on a closed one only
	})
}

// Bounds of long messages, of which each may have 64 KiB, and take sixteen times as much when it is read.
const (
	longMessage  = 4 << 10         // octets
	longTime     = 2 * time.Second // for all of a long message but its first longMessage octets
	mostReceived = 128             // that come in at a time, perhaps slowly
	mostRead     = 8               // that are read at a time, where there are processors enough
)

// readAtATime is how many long messages are read at a time, by the number of processors: half of them, where there are several, have time for
// other clients. A long message takes up to 3 ms, in which a processor does nothing else.
func readAtATime(processors int) int { return max(1, min(mostRead, processors/2)) }

// errIgnored is a message that is no response to the question.
var errIgnored = errors.New("another message")

// receiveTCP returns the next message if it is the response to the query.
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

// readRest reads the rest of a long message, of size octets in all. A server that sends it slowly does not hold a place for long.
func readRest(conn net.Conn, begin []byte, size int) (whole []byte, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(longTime)); err != nil {
		return nil, err
	}
	whole = make([]byte, size)
	_, err = io.ReadFull(conn, whole[copy(whole, begin):])
	return whole, err
}

// writeMessage writes the length and the message in one segment (RFC 7766
// section 8).
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

// Spending are the messages over TCP and TLS that came for a question, in octets. Those of a
// datagram are bounded by their size. It may be used concurrently; nil counts nothing.
type Spending struct{ octets atomic.Int64 }

// Total is the sum so far, in octets.
func (s *Spending) Total() int { return int(s.octets.Load()) }

func (s *Spending) add(octets int) {
	if s != nil {
		s.octets.Add(int64(octets))
	}
}
