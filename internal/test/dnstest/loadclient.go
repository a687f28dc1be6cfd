package dnstest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
)

// loadClient is one UDP socket of a Load.
type loadClient struct {
	conn   *net.UDPConn
	server netip.AddrPort

	mu      sync.Mutex // guards the fields below
	next    uint16
	waiting map[uint16]asked
}

// loadBuffer holds the answers that arrive while other processes run.
const loadBuffer = 16 << 20

func newLoadClient(server netip.AddrPort, from netip.Addr) (*loadClient, error) {
	network := "udp6"
	if server.Addr().Is4() {
		network = "udp4"
	}
	var local *net.UDPAddr
	if from.IsValid() {
		local = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	conn, err := net.ListenUDP(network, local)
	if err != nil {
		return nil, err
	}
	if err := setReceiveBuffer(conn, loadBuffer); err != nil {
		conn.Close()
		return nil, err
	}
	return &loadClient{conn: conn, server: server, waiting: map[uint16]asked{}}, nil
}

func (c *loadClient) send(q asked) {
	c.mu.Lock()
	for c.next++; c.isWaiting(c.next); c.next++ {
	}
	id := c.next
	c.waiting[id] = q
	c.mu.Unlock()
	_, _ = c.conn.WriteToUDPAddrPort(q.message(id), c.server) // what cannot be sent counts as lost
}

func (c *loadClient) isWaiting(id uint16) bool {
	_, waiting := c.waiting[id]
	return waiting
}

// waits returns the number of questions without an answer.
func (c *loadClient) waits() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

// read receives answers until the socket is closed. It ignores a second answer to the same
// question.
func (c *loadClient) read(r *Loading) {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := c.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		if n < 2 || netip.AddrPortFrom(from.Addr().Unmap(), from.Port()) != c.server {
			continue
		}
		id := binary.BigEndian.Uint16(buf)
		c.mu.Lock()
		q, waiting := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if waiting {
			r.answered(q, buf[:n])
		}
	}
}

// drops returns the number of answers that did not fit the socket.
func (c *loadClient) drops() uint64 {
	port := c.conn.LocalAddr().(*net.UDPAddr).Port
	return SocketDrops(uint16(port))
}

// SocketDrops returns the number of datagrams that did not fit the UDP sockets bound to a port in
// this network namespace (the last column of /proc/net/udp).
func SocketDrops(port uint16) (drops uint64) {
	for _, path := range []string{"/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"} {
		file, err := os.Open(path)
		if err != nil {
			continue // no IPv6
		}
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) < 13 || !strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
				continue
			}
			n, _ := strconv.ParseUint(fields[len(fields)-1], 10, 64) // the kernel writes a number
			drops += n
		}
	}
	return drops
}
