package dnstest

import (
	"fmt"
	"net/netip"
	"testing"
)

// FindPort returns a port of 127.0.0.1 that was just free for UDP and TCP, for a program that must
// be told where to listen.
func FindPort() (netip.AddrPort, error) {
	open, at, err := bind(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0), nil)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("finding a free port: %w", err)
	}
	open.udp.Close()
	open.listener.Close()
	return at, nil
}

// FreePort is FindPort for a test, which fails on an error.
func FreePort(t testing.TB) netip.AddrPort {
	t.Helper()
	at, err := FindPort()
	if err != nil {
		t.Fatal(err)
	}
	return at
}
