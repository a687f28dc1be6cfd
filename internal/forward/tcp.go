package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/nameserver"
)

// errTooLong cannot come of a question: 65535 octets are 256 names.
var errTooLong = errors.New("message longer than 65535 octets")

// askTCP asks over a connection of its own: truncated responses are rare, and a
// fresh connection cannot be one that the server is about to close.
func (f *Forward) askTCP(ctx context.Context, to nameserver.Server, query []byte) (*dns.Msg, error) {
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
		response, err := readMessage(conn)
		if err != nil {
			return nil, err
		}
		msg, err := decode(query, response)
		if err == nil {
			return msg, nil
		}
		f.counts.ignored.Add(1)
	}
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

func readMessage(r io.Reader) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	msg := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(r, msg); err != nil {
		return nil, err
	}
	return msg, nil
}
