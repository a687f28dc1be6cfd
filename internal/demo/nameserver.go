package demo

import (
	"net"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/miekg/dns"
)

// nameserver is a simulated upstream nameserver. It answers over UDP on loopback from a few
// records.
type nameserver struct {
	records []dns.RR
	addr    netip.AddrPort
	queries atomic.Int64
	isDown  atomic.Bool // whether it gives no answers
	server  *dns.Server
	stopped chan struct{} // closed when it has stopped
}

// startNameserver starts a nameserver with the records of a zone file (RFC 1035 section 5). The
// caller must close it.
func startNameserver(zone string) (*nameserver, error) {
	n := &nameserver{stopped: make(chan struct{})}
	parser := dns.NewZoneParser(strings.NewReader(zone), ".", "")
	for rr, ok := parser.Next(); ok; rr, ok = parser.Next() {
		n.records = append(n.records, rr)
	}
	if err := parser.Err(); err != nil {
		return nil, err
	}
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
	for _, rr := range n.records {
		if !strings.EqualFold(rr.Header().Name, query.Question[0].Name) {
			continue
		}
		response.Rcode = dns.RcodeSuccess
		if rr.Header().Rrtype == query.Question[0].Qtype {
			response.Answer = append(response.Answer, rr)
		}
	}
	_ = w.WriteMsg(response) // without a response, the daemon queries the other nameserver
}
