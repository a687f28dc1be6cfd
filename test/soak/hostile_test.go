package soak

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// hostile runs misbehaving clients at 127.2.0.0/16 until ctx ends.
func hostile(ctx context.Context, to netip.AddrPort) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { throwAway(ctx, to) })
	all.Go(func() { dribble(ctx, to) })
	all.Go(func() { hangUp(ctx, to) })
}

// throwAway sends invalid datagrams and some unsupported queries, and reads no answers.
func throwAway(ctx context.Context, to netip.AddrPort) {
	conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 2, 0, 1)}, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return
	}
	defer conn.Close()
	random := rand.New(rand.NewPCG(1, 2))
	odd := new(dns.Msg).SetQuestion("www.example.", dns.TypeANY)
	for n := 0; ctx.Err() == nil; n++ {
		wire := make([]byte, random.IntN(600))
		for i := range wire {
			wire[i] = byte(random.UintN(256))
		}
		if n%2 == 0 {
			odd.Opcode, odd.Question[0].Qtype = random.IntN(16), []uint16{dns.TypeANY, dns.TypeAXFR, dns.TypeIXFR, dns.TypeOPT, 0}[n%5]
			wire, _ = odd.Pack()
			wire = wire[:len(wire)-n%3]
		}
		_, _ = conn.Write(wire)
		time.Sleep(2 * time.Millisecond)
	}
}

// dribble opens connections on which a query arrives byte by byte, and others that stay silent.
func dribble(ctx context.Context, to netip.AddrPort) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 2, 0, 2)}}
	for ctx.Err() == nil {
		var conns []net.Conn
		for range 30 {
			if conn, err := dialer.DialContext(ctx, "tcp4", to.String()); err == nil {
				conns = append(conns, conn)
			}
		}
		for range 20 {
			for i, conn := range conns {
				if i%2 == 0 {
					_, _ = conn.Write([]byte{0})
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		for _, conn := range conns {
			conn.Close()
		}
	}
}

// hangUp sends queries over TCP, reads no answers, and resets the connection.
func hangUp(ctx context.Context, to netip.AddrPort) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 2, 0, 3)}}
	for ctx.Err() == nil {
		if conn, err := dialer.DialContext(ctx, "tcp4", to.String()); err == nil {
			c := dns.Conn{Conn: conn}
			for k := range kinds {
				_, _ = c.Write(newQuestion(k, 1).wire)
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
}
