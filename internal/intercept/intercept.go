// Package intercept defines the data that node-dns and its helper node-dns-intercept exchange.
//
// Pods ask the IP address of the cluster's DNS Service. While node-dns answers at that address, the
// helper brings the queries of this node's pods to it; otherwise they reach the cluster's own DNS
// pods as before. The daemon, which parses packets from the network, has no privileges: it writes a
// Request. The helper, which has CAP_NET_ADMIN, parses that file and the responses to its own
// queries, and writes a State. Where Cilium translates the queries of sockets, these responses come
// from other hosts.
package intercept

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// MaxAddrs bounds the addresses of a Request. A cluster's DNS Service has one or two, and
	// NodeLocal DNSCache's address may be added.
	MaxAddrs = 8
	// maxRequest bounds the size of the request file in bytes.
	maxRequest = 2048
)

// RequestFile returns the path of the request file below root; "" means /. It exists while the
// daemon wants interception.
func RequestFile(root string) string { return filepath.Join("/", root, "/run/node-dns/intercept") }

// Request is the daemon's request to the helper. The zero Request means no interception.
type Request struct {
	Addrs []netip.Addr // addresses whose port 53 is intercepted, without duplicates
	Nodes []netip.Addr // addresses of this host where node-dns also answers, at most one of each family

	// Translate means that queries are translated to Nodes instead of being served at Addrs: one of
	// these is NodeLocal DNSCache's own. Its pod can then return to the node, or restart there: no
	// other program is bound to its addresses.
	Translate bool
}

// Format returns the content of the request file.
func (r Request) Format() []byte {
	var b bytes.Buffer
	b.WriteString("# node-dns.service wants node-dns-intercept.service to intercept port 53 of these addresses.\n")
	word := "intercept"
	if r.Translate {
		word = "translate"
	}
	for _, addr := range r.Addrs {
		fmt.Fprintf(&b, "%s %s\n", word, addr)
	}
	for _, addr := range r.Nodes {
		fmt.Fprintf(&b, "node %s\n", addr)
	}
	return b.Bytes()
}

// parseRequest parses the content of a request file. It accepts only addresses that Check accepts,
// because a compromised daemon may have written the file.
func parseRequest(data []byte) (Request, error) {
	var r Request
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, text, _ := strings.Cut(line, " ")
		addr, err := netip.ParseAddr(text)
		if err == nil {
			err = Check(addr)
		}
		if err != nil {
			return Request{}, fmt.Errorf("line %d: %w", number, err)
		}
		switch word {
		case "intercept", "translate":
			r.Translate = r.Translate || word == "translate"
			if len(r.Addrs) == MaxAddrs {
				return Request{}, fmt.Errorf("line %d: expected at most %d addresses", number, MaxAddrs)
			}
			if !slices.Contains(r.Addrs, addr) {
				r.Addrs = append(r.Addrs, addr)
			}
		case "node":
			if r.Node(addr) == (netip.Addr{}) {
				r.Nodes = append(r.Nodes, addr)
			}
		default:
			return Request{}, fmt.Errorf("line %d: expected intercept, translate or node, got %q", number, word)
		}
	}
	return r, nil
}

// Check returns why an address can never be intercepted: it is not a unicast address that other
// hosts could have, or it has a zone. IPv4-mapped addresses are refused, too.
func Check(addr netip.Addr) error {
	switch {
	case addr.Zone() != "":
		return fmt.Errorf("%s has a zone", addr)
	case addr.Is4In6():
		return fmt.Errorf("%s is not written as an IPv4 address", addr)
	case !addr.IsGlobalUnicast() && !(addr.Is4() && addr.IsLinkLocalUnicast()):
		return fmt.Errorf("%s is not a unicast address for pods", addr)
	}
	return nil
}

// Node returns the address of Nodes that has the family of addr, or the zero Addr.
func (r Request) Node(addr netip.Addr) netip.Addr {
	for _, node := range r.Nodes {
		if node.Is4() == addr.Is4() {
			return node
		}
	}
	return netip.Addr{}
}

// ReadRequest reads a request file. If the file does not exist, it returns the zero Request. It
// does not follow a link and does not wait for a FIFO, because an unprivileged user owns the
// directory.
func ReadRequest(path string) (Request, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return Request{}, nil
	}
	if err != nil {
		return Request{}, fmt.Errorf("opening the request: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return Request{}, fmt.Errorf("%s is not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxRequest+1))
	if err != nil {
		return Request{}, fmt.Errorf("reading the request: %w", err)
	}
	if len(data) > maxRequest {
		return Request{}, fmt.Errorf("%s: expected at most %d bytes", path, maxRequest)
	}
	r, err := parseRequest(data)
	if err != nil {
		return Request{}, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
