package main

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// goodClients is the number of dnsperf's clients, out of twenty, in workloads with bad clients: one
// that closes its socket before its answer arrives, and one that never reads.
const (
	clients     = 20
	goodClients = 18
)

// badClients sends queries until the context ends and ignores the answers.
func badClients(ctx context.Context, address string, rate int) (done func()) {
	query, err := new(dns.Msg).SetQuestion("h00000.example.com.", dns.TypeA).Pack()
	if err != nil {
		panic(err) // the name is a valid constant
	}
	ctx, cancel := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { goneClient(ctx, address, query, rate/goodClients) })
	both.Go(func() { deafClient(ctx, address, query) })
	return func() { cancel(); both.Wait() }
}

// goneClient sends rate queries per second, each from a socket that is closed before the answer
// comes.
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

// deafQueries is the number of queries of a deaf client on one connection: their answers exceed the
// server's send buffer and the client's receive buffer.
const deafQueries = 2000

// deafClient sends queries on a TCP connection, reads nothing, and keeps it open. If the server
// closes it, the client reconnects after a second.
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
			_, err = conn.Write(framed) // checks whether the connection is still open
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
