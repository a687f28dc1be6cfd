package control

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

const directRecords = "example. 300 IN SOA ns.example. hostmaster.example. 1 3600 600 86400 300\nwww.example. 300 IN A 192.0.2.80\n"

// TestDirect checks the transport of each answer, or the reason for its failure.
func TestDirect(t *testing.T) {
	plain, secure := dnstest.NewServer(t, directRecords), dnstest.NewTLSServer(t, directRecords)
	overTLS := func(name string) nameserver.Server {
		return nameserver.Server{Addr: secure.Addr(), TLS: true, Name: name}
	}
	for _, test := range []struct {
		name   string
		faults dnstest.Faults
		direct Direct
		want   string // rcode and transport, or the failure
	}{
		{name: "UDP", want: "NOERROR UDP"},
		{name: "truncated", faults: dnstest.Faults{Truncate: true}, want: "NOERROR TCP (truncated over UDP)"},
		{name: "TCP", direct: Direct{TCP: true}, want: "NOERROR TCP"},
		{name: "TLS", direct: Direct{Server: overTLS(dnstest.TLSName), RootCAs: secure.CertPool()}, want: "NOERROR TLS"},
		{name: "TLS, by the address", direct: Direct{Server: overTLS(""), RootCAs: secure.CertPool()}, want: "NOERROR TLS"},
		{name: "TLS of another name", direct: Direct{Server: overTLS("other.example"), RootCAs: secure.CertPool()}, want: "certificate refused"},
		{name: "TLS of a CA that is not known", direct: Direct{Server: overTLS("")}, want: "certificate refused"},
		{name: "an rcode", faults: dnstest.Faults{Rcode: dns.RcodeRefused}, want: "REFUSED UDP"},
		{name: "another question", faults: dnstest.Faults{WrongQuestion: true}, want: "the response does not match the question"},
		{name: "another type", faults: dnstest.Faults{WrongType: true}, want: "the response does not match the question"},
		{name: "no question", faults: dnstest.Faults{NoQuestion: true}, want: "the response does not match the question"},
		{name: "nobody", direct: Direct{Server: nameserver.Server{Addr: netip.MustParseAddrPort("127.0.0.1:1")}}, want: "connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			plain.SetFaults(test.faults)
			if !test.direct.Server.Addr.IsValid() {
				test.direct.Server = nameserver.Server{Addr: plain.Addr()}
			}
			a, err := test.direct.Query(t.Context(), Question{Name: "www.example"})
			if err != nil {
				t.Fatal(err)
			}
			got := a.Rcode + " " + a.By.Transport
			if a.Failure != "" {
				got = a.Failure
			}
			if !strings.HasPrefix(got, test.want) || a.By.Who != "server" || a.By.Server != test.direct.Server.String() {
				t.Errorf("got %s from %+v, want %s", got, a.By, test.want)
			}
		})
	}
}

// TestDirectFlags proves that the query carries exactly the requested bits.
func TestDirectFlags(t *testing.T) {
	server := dnstest.NewServer(t, directRecords)
	direct := Direct{Server: nameserver.Server{Addr: server.Addr()}}
	for _, question := range []Question{{}, {DNSSEC: true}, {CD: true}} {
		question.Name = "www.example"
		if _, err := direct.Query(t.Context(), question); err != nil {
			t.Fatal(err)
		}
		received := server.Received()
		m := received[len(received)-1].Msg
		if opt := m.IsEdns0(); opt == nil || opt.Do() != question.DNSSEC || m.CheckingDisabled != question.CD {
			t.Errorf("%+v: got %v", question, m)
		}
	}
}

// TestDirectEnds proves that a canceled query is an error of the command, not a failure of the
// server.
func TestDirectEnds(t *testing.T) {
	server := dnstest.NewServer(t, directRecords)
	server.SetFaults(dnstest.Faults{Drop: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a, err := (Direct{Server: nameserver.Server{Addr: server.Addr()}}).Query(ctx, Question{Name: "www.example"}); err == nil {
		t.Errorf("got %+v, want an error", a)
	}
}
