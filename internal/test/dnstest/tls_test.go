package dnstest_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

func TestTLS(t *testing.T) {
	server := dnstest.NewTLSServer(t, world)
	for _, name := range []string{dnstest.TLSName, "127.0.0.1"} {
		client := dns.Client{
			Net: "tcp-tls", Timeout: 10 * time.Second,
			TLSConfig: &tls.Config{RootCAs: server.CertPool(), ServerName: name},
		}
		got, _, err := client.Exchange(newQuery("www.example.com.", dns.TypeA), server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if diff := dnstest.Diff("www.example.com. 300 A 192.0.2.80", got); diff != "" {
			t.Error(diff)
		}
	}
	if seen := server.Received(); len(seen) != 2 || seen[0].Network != "tls" {
		t.Errorf("received %v", seen)
	}
}

func TestTLSRefusals(t *testing.T) {
	server := dnstest.NewTLSServer(t, world)
	other := dnstest.NewTLSServer(t, world)
	dial := func(config *tls.Config) error {
		conn, err := tls.Dial("tcp", server.Addr().String(), config)
		if err == nil {
			conn.Close()
		}
		return err
	}
	var name x509.HostnameError
	if err := dial(&tls.Config{RootCAs: server.CertPool(), ServerName: "other.invalid"}); !errors.As(err, &name) {
		t.Errorf("another name: %v", err)
	}
	var authority x509.UnknownAuthorityError
	if err := dial(&tls.Config{RootCAs: other.CertPool(), ServerName: dnstest.TLSName}); !errors.As(err, &authority) {
		t.Errorf("another CA: %v", err)
	}
}

// TestTLSFaults: connection faults also work with TLS, and a server goes down despite a handshake
// and a response in progress.
func TestTLSFaults(t *testing.T) {
	server := dnstest.NewTLSServer(t, world)
	ask := func() (*tls.Conn, []byte, error) {
		conn, err := tls.Dial("tcp", server.Addr().String(), &tls.Config{RootCAs: server.CertPool(), ServerName: dnstest.TLSName})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		writeFrame(t, conn, pack(t, newQuery("www.example.com.", dns.TypeA)))
		wire, err := readFrame(conn)
		return conn, wire, err
	}
	server.SetFaults(dnstest.Faults{CloseTCP: true})
	if _, wire, err := ask(); err == nil || connectionEnd(t, err) != "closed" {
		t.Errorf("closed: %q, %v", wire, err)
	}
	server.SetFaults(dnstest.Faults{ResetTCP: true})
	if _, wire, err := ask(); err == nil || connectionEnd(t, err) != "reset" {
		t.Errorf("reset: %q, %v", wire, err)
	}
	server.SetFaults(dnstest.Faults{WrongID: true})
	conn, wire, err := ask()
	if err != nil || describe(wire) != "wrong ID: "+forged {
		t.Errorf("wrong ID: %q, %v", describe(wire), err)
	}
	server.SetFaults(dnstest.Faults{Delay: hour})
	writeFrame(t, conn, pack(t, newQuery("www.example.com.", dns.TypeA)))
	mute, err := net.Dial("tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	server.Down()
	if err := server.Up(); err != nil {
		t.Fatal(err)
	}
	server.SetFaults(dnstest.Faults{})
	if _, wire, err := ask(); err != nil || describe(wire) != right {
		t.Errorf("up again: %q, %v", describe(wire), err)
	}
}
