package hostdns

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	probeTry      = 150 * time.Millisecond // one query; the daemon answers in well under a millisecond
	probePatience = 800 * time.Millisecond // as long as a restarting daemon is waited for
	probePause    = 25 * time.Millisecond  // between tries that are refused at once
)

// silence says in a few words why nothing answered: package net's own text names addresses and ports twice.
func silence(nameserver netip.AddrPort, err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return fmt.Errorf("%s does not answer: %w", nameserver, err)
}

// Probe asks the local nameserver one question that it answers by itself, whatever its upstreams do: version.bind in
// class CHAOS, which node-dns, dnsmasq, unbound, BIND and CoreDNS all know. Any response to the question counts. A
// patient probe asks again for 0.8 s: the daemon may be restarting.
func Probe(ctx context.Context, nameserver netip.AddrPort, patient bool) error {
	limit := probeTry
	if patient {
		limit = probePatience
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := probeOnce(ctx, nameserver)
		if err == nil {
			return nil
		}
		if !patient {
			return silence(nameserver, err)
		}
		select {
		case <-ctx.Done():
			return silence(nameserver, err)
		case <-time.After(probePause):
		}
	}
}

func probeOnce(ctx context.Context, nameserver netip.AddrPort) error {
	query, id, err := probeQuery()
	if err != nil {
		return err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", nameserver.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline := time.Now().Add(probeTry)
	if limit, ok := ctx.Deadline(); ok && limit.Before(deadline) {
		deadline = limit
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := conn.Write(query); err != nil {
		return err
	}
	buf := make([]byte, 512)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return err
		}
		var parser dnsmessage.Parser
		if header, err := parser.Start(buf[:n]); err == nil && header.Response && header.ID == id {
			return nil
		}
	}
}

func probeQuery() ([]byte, uint16, error) {
	var random [2]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, 0, fmt.Errorf("drawing an ID: %w", err)
	}
	id := binary.BigEndian.Uint16(random[:])
	name, err := dnsmessage.NewName("version.bind.")
	if err != nil {
		return nil, 0, err
	}
	message := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassCHAOS}},
	}
	query, err := message.Pack()
	return query, id, err
}
