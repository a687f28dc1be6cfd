package demo

import (
	"net"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/miekg/dns"
)

// nameserver is a simulated upstream nameserver. It answers over UDP on loopback from a few A
// records. A zone file would add the parser of package dns to node-dns, a hundred kilobytes.
type nameserver struct {
	records map[string][4]byte // addresses by name, in lower case
	addr    netip.AddrPort
	queries atomic.Int64
	isDown  atomic.Bool // whether it gives no answers
	server  *dns.Server
	stopped chan struct{} // closed when it has stopped
}

// startNameserver starts a nameserver. The caller must close it.
func startNameserver(records map[string][4]byte) (*nameserver, error) {
	n := &nameserver{records: records, stopped: make(chan struct{})}
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	n.addr = socket.LocalAddr().(*net.UDPAddr).AddrPort()
	started := make(chan struct{})
	n.server = &dns.Server{PacketConn: socket, Handler: dns.HandlerFunc(n.answer), NotifyStartedFunc: func() { close(started) }}
	go func() {
		defer close(n.stopped)
		_ = n.server.ActivateAndServe() // nil after close; otherwise the checks of the story fail
	}()
	select {
	case <-started: // Shutdown has no effect before that
	case <-n.stopped:
	}
	return n, nil
}

func (n *nameserver) close() {
	_ = n.server.Shutdown() // an error means that it has already stopped
	<-n.stopped
}

// answer replies to a query. A name without a record gets NXDOMAIN.
func (n *nameserver) answer(w dns.ResponseWriter, query *dns.Msg) {
	n.queries.Add(1)
	if n.isDown.Load() || len(query.Question) != 1 {
		return
	}
	response := new(dns.Msg).SetRcode(query, dns.RcodeNameError)
	response.RecursionAvailable = true
	q := query.Question[0]
	if addr, ok := n.records[strings.ToLower(q.Name)]; ok {
		response.Rcode = dns.RcodeSuccess
		if q.Qtype == dns.TypeA {
			header := dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 300}
			response.Answer = []dns.RR{&dns.A{Hdr: header, A: addr[:]}}
		}
	}
	_ = w.WriteMsg(response) // without a response, the daemon queries the other nameserver
}
