package main

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// goodClients of twenty are dnsperf's where the rest is bad: one that is gone, and one that never reads.
const (
	clients     = 20
	goodClients = 18
)

// badClients ask until the context ends, and wait for no answer.
func badClients(ctx context.Context, address string, rate int) (done func()) {
	query, err := new(dns.Msg).SetQuestion("h00000.example.com.", dns.TypeA).Pack()
	if err != nil {
		panic(err) // a question with a name of our own
	}
	ctx, cancel := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { goneClient(ctx, address, query, rate/goodClients) })
	both.Go(func() { deafClient(ctx, address, query) })
	return func() { cancel(); both.Wait() }
}

// goneClient asks so many times a second, each from a socket that is closed when the answer comes.
func goneClient(ctx context.Context, address string, query []byte, rate int) {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if conn, err := net.Dial("udp", address); err == nil {
			conn.Write(query)
			conn.Close()
		}
	}
}

// deafQueries is how much a deaf client asks on one connection: more than fits the server's send buffer and its own receive buffer.
const deafQueries = 2000

// deafClient asks on a TCP connection, reads nothing, and holds it. When the server ends that it connects again a second later.
func deafClient(ctx context.Context, address string, query []byte) {
	framed := append([]byte{byte(len(query) >> 8), byte(len(query))}, query...)
	many := bytes.Repeat(framed, deafQueries)
	for ; ctx.Err() == nil; sleep(ctx, time.Second) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			continue
		}
		release := context.AfterFunc(ctx, func() { conn.Close() })
		conn.(*net.TCPConn).SetReadBuffer(4096)
		_, err = conn.Write(many)
		for err == nil && ctx.Err() == nil {
			sleep(ctx, time.Second)
			_, err = conn.Write(framed) // is it still there?
		}
		release()
		conn.Close()
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
