package main_test

import (
	"net"
	"testing"
)

// resolver is a local nameserver that says no more than that it is there.
type resolver struct {
	conn net.PacketConn
	done chan struct{} // closed when the address is free again
}

func startResolver(t *testing.T, ip string) *resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", net.JoinHostPort(ip, "53"))
	if err != nil {
		t.Fatal(err)
	}
	r := &resolver{conn, make(chan struct{})}
	go func() {
		defer close(r.done)
		buf := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			buf[2] |= 0x80
			conn.WriteTo(buf[:n], from)
		}
	}()
	t.Cleanup(r.stop)
	return r
}

func (r *resolver) stop() {
	r.conn.Close()
	<-r.done
}
