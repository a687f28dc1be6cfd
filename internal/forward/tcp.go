package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/nameserver"
)

// errTooLong cannot come of a question: 65535 octets are 256 names.
var errTooLong = errors.New("message longer than 65535 octets")

// askTCP asks over a connection of its own: truncated responses are rare, and a
// fresh connection cannot be one that the server is about to close.
func (f *Forward) askTCP(ctx context.Context, to nameserver.Server, query []byte, spent *spending) (*dns.Msg, error) {
	conn, err := dialServer(ctx, "tcp", to, UDP{})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer endWith(ctx, conn)()
	setID(query, newID())
	if err := writeMessage(conn, query); err != nil {
		return nil, err
	}
	for {
		msg, err := f.receiveTCP(ctx, conn, query, spent)
		if !errors.Is(err, errIgnored) {
			return msg, err
		}
		f.counts.ignored.Add(1)
	}
}

// Bounds of long messages, of which each may have 64 KiB, and take sixteen times as much when it is read.
const (
	longMessage  = 4 << 10 // octets
	mostReceived = 128     // that come in at a time, perhaps slowly
	mostRead     = 8       // that are read at a time, where there are processors enough
)

// readAtATime is how many long messages are read at a time, by the number of processors: half of them, where there are several, have time for
// other clients. A long message takes up to 3 ms, in which a processor does nothing else.
func readAtATime(processors int) int { return max(1, min(mostRead, processors/2)) }

// errIgnored is a message that is no response to the question.
var errIgnored = errors.New("another message")

// receiveTCP returns the next message if it is the response to the query.
func (f *Forward) receiveTCP(ctx context.Context, conn io.Reader, query []byte, spent *spending) (*dns.Msg, error) {
	size, err := readLength(conn)
	if err != nil {
		return nil, err
	}
	if size > longMessage {
		select {
		case f.received <- struct{}{}:
			defer func() { <-f.received }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	response := make([]byte, size)
	if _, err := io.ReadFull(conn, response); err != nil {
		return nil, err
	}
	spent.add(size)
	if size > longMessage {
		f.read <- struct{}{}
		defer func() { <-f.read }()
	}
	msg, err := decodeStream(query, response)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIgnored, err)
	}
	return msg, nil
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
