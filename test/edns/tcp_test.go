package edns

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// A tcpRow is a client's behavior on a connection.
type tcpRow struct {
	id, ref string
	play    func(c *caller)
}

// caller is a client on one connection to the daemon.
type caller struct {
	*peer
	upstream *dnstest.Server
}

// answers checks that the next response answers the query.
func (c *caller) answers(asked []byte, want string) {
	c.t.Helper()
	response := c.receive()
	if line, faults := judge(asked, response, "tcp"); line != want || len(faults) > 0 {
		c.t.Fatalf("%s; want %s; faults %q: %x", line, want, faults, response)
	}
}

// fresh returns a query that was not sent before.
func fresh(name string, id byte) []byte {
	asked := named(query(question(name, dns.TypeA)), unused())
	asked[1] = id
	return asked
}

const good = "NOERROR an=1"

var tcpRows = []tcpRow{
	{"tcp", "RFC 8906 8.1.5; RFC 7766", func(c *caller) {
		asked := fresh(one, 1)
		c.send(asked)
		c.answers(asked, good)
	}},
	{"tcp-ooo", "RFC 7766 7", func(c *caller) {
		slow, fast := fresh(one, 1), fresh(one, 2)
		c.upstream.SetFaultsFor(nameIn(slow), dnstest.Faults{Delay: 1500 * time.Millisecond})
		c.send(slow)
		c.send(fast)
		c.answers(fast, good)
		c.answers(slow, good)
	}},
	{"tcp-reuse", "RFC 7766 6.2.1", func(c *caller) {
		first, second := fresh(one, 1), fresh(one, 2)
		c.send(first)
		c.answers(first, good)
		time.Sleep(time.Second)
		c.send(second)
		c.answers(second, good)
		c.send(first)
		c.answers(first, good)
	}},
	{"tcp-hdr0", "robustness", func(c *caller) {
		zeros := make([]byte, 12)
		c.send(zeros)
		c.answers(zeros, "FORMERR qd=0")
		asked := fresh(one, 1)
		c.send(asked)
		c.answers(asked, good)
	}},
	{"tcp-big", "RFC 1035", func(c *caller) {
		asked := fresh(nineHundred, 1)
		c.send(asked)
		c.answers(asked, "NOERROR an=900")
	}},
	{"tcp-halfclose", "RFC 7766 6.2.4", func(c *caller) {
		asked := fresh(one, 1)
		c.upstream.SetFaultsFor(nameIn(asked), dnstest.Faults{Delay: 100 * time.Millisecond})
		c.send(asked)
		if err := c.conn.(*net.TCPConn).CloseWrite(); err != nil {
			c.t.Fatal(err)
		}
		c.answers(asked, good)
		if !c.isClosed() {
			c.t.Error("the connection stays open")
		}
	}},
	{"tcp-together", "RFC 7766 8", func(c *caller) { // several messages in one segment
		var all []byte
		var asked [][]byte
		for i := range 8 {
			asked = append(asked, fresh(one, byte(i)))
			all = append(all, framed(asked[i])...)
		}
		c.write(all)
		seen := map[byte]bool{}
		for range asked {
			response := c.receive()
			seen[response[1]] = true
			if line, faults := judge(asked[response[1]&7], response, "tcp"); line != good || len(faults) > 0 {
				c.t.Fatalf("%s; faults %q", line, faults)
			}
		}
		if len(seen) != len(asked) {
			c.t.Errorf("answered %v", seen)
		}
	}},
	{"tcp-split", "RFC 7766 8", func(c *caller) { // each byte in a separate segment, including the length
		asked := fresh(one, 1)
		for _, octet := range framed(asked) {
			c.write([]byte{octet})
			time.Sleep(time.Millisecond)
		}
		c.answers(asked, good)
	}},
	{"tcp-split-next", "RFC 7766 8", func(c *caller) { // a segment ends within the length of the next message
		first, second := fresh(one, 1), fresh(one, 2)
		all := append(framed(first), framed(second)...)
		c.write(all[:len(first)+3])
		c.answers(first, good)
		c.write(all[len(first)+3:])
		c.answers(second, good)
	}},
	{"tcp-largest", "RFC 1035 4.2.2", func(c *caller) {
		asked := fresh(one, 1)
		asked = append(asked, make([]byte, dns.MaxMsgSize-len(asked))...)
		c.send(asked)
		c.answers(asked, good)
	}},
	{"tcp-empty", "robustness", func(c *caller) { // a length of 0
		c.send(nil)
		if !c.isClosed() {
			c.t.Error("the connection stays open")
		}
	}},
	{"tcp-qr", "RFC 1035 7.3", func(c *caller) { // a response gets no answer, and the connection stays open
		asked := fresh(one, 1)
		c.send(raw(asked[:2], []byte{0x81}, asked[3:]))
		c.send(asked)
		c.answers(asked, good)
	}},
	{"tcp-error", "RFC 7766 6.2.1", func(c *caller) { // also after an error
		bad, asked := message(rd, 2, 0, 0, 0, www, www), fresh(one, 1)
		c.send(bad)
		c.answers(bad, "FORMERR qd=0")
		c.send(asked)
		c.answers(asked, good)
	}},
	{"tcp-axfr", "RFC 5936 2.2", func(c *caller) { // one message, no transfer
		bad, asked := query(question("t.example.", dns.TypeAXFR)), fresh(one, 1)
		c.send(bad)
		c.answers(bad, "REFUSED")
		c.send(asked)
		c.answers(asked, good)
	}},
}

func (c *caller) write(octets []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(octets); err != nil {
		c.t.Fatal(err)
	}
}

// nameIn returns the name in a query.
func nameIn(asked []byte) string {
	name, _, err := dns.UnpackDomainName(asked, 12)
	if err != nil {
		panic(err)
	}
	return strings.Clone(name)
}

func TestTCP(t *testing.T) {
	t.Parallel()
	upstream := dnstest.NewServer(t, world)
	daemon := serve(t, upstream)
	for _, r := range tcpRows {
		t.Run(r.id, func(t *testing.T) { r.play(&caller{dial(t, "tcp", daemon), upstream}) })
	}
}

// TestUDPStaysAlive: after messages that get no reply, the next query is answered.
func TestUDPStaysAlive(t *testing.T) {
	t.Parallel()
	upstream := dnstest.NewServer(t, world)
	daemon := serve(t, upstream)
	p := dial(t, "udp", daemon)
	for size := range 12 {
		p.send(bytes.Repeat([]byte{0x01}, size))
	}
	asked := fresh(one, 1)
	response := p.ask(asked)
	if line, faults := judge(asked, response, "udp"); line != good || len(faults) > 0 {
		t.Errorf("%s; faults %q", line, faults)
	}
}
