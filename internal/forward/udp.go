package forward

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/nameserver"
)

// receiveSize holds any datagram that crosses Ethernet in one piece. A larger one
// is more than was asked for, and is asked for again over TCP.
const receiveSize = 2048

var receiveBuffers = sync.Pool{New: func() any { return newBuffer(receiveSize) }}

func newBuffer(size int) *[]byte {
	buffer := make([]byte, size)
	return &buffer
}

// receiveBuffer is for a response of size octets and more.
func receiveBuffer(size uint16) *[]byte {
	if buffer := receiveBuffers.Get().(*[]byte); len(*buffer) > int(size) {
		return buffer
	}
	return newBuffer(int(size) + 1)
}

// askUDP sends query, whose ID it sets, and waits until ctx ends for the response
// to it; of what is none, spoilt is told, which may be nil. The socket is used for nothing else: connected, so that the kernel drops
// what comes from elsewhere (CVE-2020-25684, DNSpooq), and bound, where no others
// are wanted, by the kernel to a random port of net.ipv4.ip_local_port_range, which is as good as another
// 14 bits of ID (RFC 5452 section 9.2). CoreDNS, which keeps its sockets, used 8
// ports for 4000 queries.
func (f *Forward) askUDP(ctx context.Context, to nameserver.Server, udp UDP, query []byte, spoilt func(unreadable bool)) (*dns.Msg, error) {
	conn, err := dialServer(ctx, "udp", to, udp)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer endWith(ctx, conn)()
	setID(query, newID())
	if _, err := conn.Write(query); err != nil {
		return nil, err
	}
	pooled := receiveBuffer(udp.Size)
	defer receiveBuffers.Put(pooled)
	buffer := *pooled
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return nil, err
		}
		if n == len(buffer) {
			buffer[2] |= bitTC // its end is lost
		}
		msg, err := decode(query, buffer[:n])
		if err == nil {
			return msg, nil
		}
		f.counts.ignored.Add(1)
		if spoilt != nil {
			spoilt(isUnreadable(err))
		}
	}
}

// endWith makes what waits on conn return as soon as ctx ends. The function it
// returns must be called when conn is no longer waited on.
func endWith(ctx context.Context, conn net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0)) // fails on a closed one only
	})
}
