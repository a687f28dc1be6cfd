package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// RawDHCP is a DHCP server that offers arbitrary bytes, unlike dnsmasq.
type RawDHCP struct {
	Link    string // in the namespace
	Server  netip.Addr
	Client  netip.Addr      // the only address that it offers, in a /24
	Options map[byte][]byte // by option number (RFC 2132), besides message type, server, mask and lease time
}

// Serve starts the server in the namespace. It ends with the test.
func (r RawDHCP) Serve(n *Namespace) {
	n.l.t.Helper()
	conn, err := n.listen(r.Link)
	if err != nil {
		n.l.t.Fatalf("starting a DHCP server: %v", err)
	}
	done := make(chan struct{})
	n.l.t.Cleanup(func() {
		conn.Close()
		<-done
	})
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for {
			size, _, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := r.reply(buf[:size]); reply != nil {
				conn.WriteTo(reply, &net.UDPAddr{IP: net.IPv4bcast, Port: 68})
			}
		}
	}()
}

func (n *Namespace) listen(link string) (conn net.PacketConn, err error) {
	insideErr := n.Inside(func() {
		config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return broadcasting(c, link) }}
		conn, err = config.ListenPacket(context.Background(), "udp4", "0.0.0.0:67")
	})
	return conn, errors.Join(insideErr, err)
}

func broadcasting(c syscall.RawConn, link string) error {
	var err error
	if e := c.Control(func(fd uintptr) {
		if err = unix.BindToDevice(int(fd), link); err == nil {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
		}
	}); e != nil {
		return e
	}
	return err
}

var magic = []byte{99, 130, 83, 99} // RFC 2131, section 3

// reply answers a DISCOVER with an OFFER and a REQUEST with an ACK (RFC 2131, section 4.3).
func (r RawDHCP) reply(request []byte) []byte {
	const header, discover, request3 = 236, 1, 3
	if len(request) < header+4 || request[0] != 1 || !bytes.Equal(request[header:header+4], magic) {
		return nil
	}
	kind := map[byte]byte{discover: 2, request3: 5}[messageType(request[header+4:])]
	if kind == 0 {
		return nil
	}
	reply := make([]byte, header, 1024)
	copy(reply[:4], request[:4])           // type and length of the hardware address
	copy(reply[4:8], request[4:8])         // transaction
	copy(reply[10:12], request[10:12])     // flags
	copy(reply[28:44], request[28:44])     // hardware address
	copy(reply[16:20], r.Client.AsSlice()) // "your" address
	reply[0] = 2
	reply = append(reply, magic...)
	reply = append(reply, 53, 1, kind, 54, 4)
	reply = append(reply, r.Server.AsSlice()...)
	reply = append(reply, 1, 4, 255, 255, 255, 0, 51, 4)
	reply = binary.BigEndian.AppendUint32(reply, 3600)
	for code, value := range r.Options {
		reply = append(append(reply, code, byte(len(value))), value...)
	}
	return append(reply, 255)
}

func messageType(options []byte) byte {
	for len(options) >= 3 && options[0] != 255 {
		if options[0] == 53 {
			return options[2]
		}
		if options[0] == 0 {
			options = options[1:]
			continue
		}
		options = options[min(len(options), 2+int(options[1])):]
	}
	return 0
}
