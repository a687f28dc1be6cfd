package main_test

import (
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// startResolver starts `node-dns serve` and returns when it answers at this address. It finds its
// listen address itself, as on a node. If the node has no such address, told passes it on the
// command line.
func startResolver(t *testing.T, l *lab.Lab, ip string, told bool) *lab.Process {
	t.Helper()
	addr := net.JoinHostPort(ip, "53")
	argv := []string{lab.Binary(t, "node-dns"), "serve"}
	if told {
		argv = append(argv, "--listen", addr)
	}
	p := l.Start(lab.Command{Argv: argv})
	query := new(dns.Msg).SetQuestion("version.bind.", dns.TypeTXT)
	query.Question[0].Qclass = dns.ClassCHAOS
	l.Await("node-dns to answer at "+addr, func() bool {
		client := dns.Client{Timeout: time.Second}
		_, _, err := client.Exchange(query, addr)
		return err == nil
	})
	return p
}
