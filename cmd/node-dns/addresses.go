package main

import (
	"fmt"
	"net/netip"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// parseListen parses the values of --listen.
func parseListen(texts []string) ([]netip.AddrPort, error) {
	var addrs []netip.AddrPort
	for _, text := range texts {
		if isEveryAddress(text) {
			return nil, fmt.Errorf("--listen %s: expected one ADDR:PORT, such as 127.0.0.1:10053; "+
				"to listen on every address except loopback, set `listen: all` in node-dns.yaml", text)
		}
		addr, err := netip.ParseAddrPort(text)
		if err != nil || !isOneHost(addr.Addr()) {
			return nil, fmt.Errorf("--listen %s: expected ADDR:PORT, such as 127.0.0.1:10053 or [::1]:10053", text)
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// isEveryAddress reports whether text is a wildcard address, for which other programs use one
// socket. Our responses leave from the queried address, so each address has its own socket.
func isEveryAddress(text string) bool {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		at, portErr := netip.ParseAddrPort(text)
		addr, err = at.Addr(), portErr
	}
	return text == "all" || err == nil && addr.Unmap().IsUnspecified()
}

// parseUpstreams parses the values of --upstream.
func parseUpstreams(texts []string) ([]nameserver.Server, error) {
	var servers []nameserver.Server
	for _, text := range texts {
		server, err := nameserver.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("--upstream %s: %w", text, err)
		}
		if !isOneHost(server.Addr.Addr()) || server.Addr.Addr().IsUnspecified() {
			return nil, fmt.Errorf("--upstream %s: expected the address of one nameserver", text)
		}
		servers = append(servers, server)
	}
	return servers, nil
}

func isOneHost(addr netip.Addr) bool {
	addr = addr.Unmap()
	return !addr.IsMulticast() && addr != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}
