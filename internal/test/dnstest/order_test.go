package dnstest_test

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

func TestFirst(t *testing.T) {
	server := dnstest.NewServer(t, world)
	server.SetFaults(dnstest.Faults{Rcode: dns.RcodeRefused, First: 2})
	for i, want := range []int{dns.RcodeRefused, dns.RcodeRefused, dns.RcodeSuccess, dns.RcodeSuccess} {
		if got := dnstest.Exchange(t, server.Addr(), "www.example.com", dns.TypeA).Rcode; got != want {
			t.Errorf("query %d: %s", i+1, dns.RcodeToString[got])
		}
	}
	server.SetFaults(dnstest.Faults{Rcode: dns.RcodeRefused, First: 1})
	if got := dnstest.Exchange(t, server.Addr(), "www.example.com", dns.TypeA).Rcode; got != dns.RcodeRefused {
		t.Errorf("after new faults: %s", dns.RcodeToString[got])
	}
}

func TestFaultsForOneName(t *testing.T) {
	server := dnstest.NewServer(t, "www.example.com. A 192.0.2.80\nbad.example.com. A 192.0.2.81")
	rcodes := func(want string) {
		t.Helper()
		var got []string
		for _, name := range []string{"www.example.com", "BAD.example.com", "sub.bad.example.com"} {
			got = append(got, dns.RcodeToString[dnstest.Exchange(t, server.Addr(), name, dns.TypeA).Rcode])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	server.SetFaultsFor("Bad.example.com", dnstest.Faults{Rcode: dns.RcodeServerFailure})
	rcodes("NOERROR SERVFAIL NXDOMAIN")
	server.SetFaults(dnstest.Faults{Rcode: dns.RcodeRefused})
	rcodes("REFUSED SERVFAIL REFUSED")
	server.SetFaultsFor("bad.example.com.", dnstest.Faults{})
	rcodes("REFUSED NOERROR REFUSED")
	server.SetFaults(dnstest.Faults{})
	rcodes("NOERROR NOERROR NXDOMAIN")
}

// TestLoss sends 1000 queries and counts the answers, which are the same in each run.
func TestLoss(t *testing.T) {
	const queries, share = 1000, 0.3
	server := dnstest.NewServer(t, world)
	var answered [2]int
	for run := range answered {
		server.SetFaults(dnstest.Faults{Loss: share})
		for range queries {
			if seen := seenOverUDP(t, server, newQuery("www.example.com.", dns.TypeA)); len(seen) == 1 {
				answered[run]++
			}
			if err := server.Up(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if answered[0] != answered[1] || answered[0] < 650 || answered[0] > 750 {
		t.Errorf("%v of %d queries answered", answered, queries)
	}
}

func TestDelay(t *testing.T) {
	const delay = 30 * time.Millisecond
	server := dnstest.NewServer(t, world)
	server.SetFaults(dnstest.Faults{Delay: delay})
	for _, ask := range []func(){
		func() { dnstest.Exchange(t, server.Addr(), "www.example.com", dns.TypeA) },
		func() { dnstest.ExchangeTCP(t, server.Addr(), "www.example.com", dns.TypeA) },
	} {
		began := time.Now()
		ask()
		if took := time.Since(began); took < delay {
			t.Errorf("answered after %v", took)
		}
	}
}

// TestWrongIDsDiffer: each guess has a different ID, as with a real attacker.
func TestWrongIDsDiffer(t *testing.T) {
	const copies = 200
	server := dnstest.NewServer(t, world)
	server.SetFaults(dnstest.Faults{WrongID: true, Copies: copies})
	conn, err := net.Dial("tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	writeFrame(t, conn, pack(t, newQuery("www.example.com.", dns.TypeA)))
	seen := map[uint16]bool{queryID: true}
	for range copies {
		wire, err := readFrame(conn)
		if err != nil {
			t.Fatal(err)
		}
		id := binary.BigEndian.Uint16(wire)
		if seen[id] {
			t.Fatalf("ID %#x is repeated", id)
		}
		seen[id] = true
	}
}

// TestDelayHoldsUpNothing queries a slow name and then another one over the same connection. The
// other answer arrives, and Close does not wait for the slow one.
func TestDelayHoldsUpNothing(t *testing.T) {
	server := dnstest.NewServer(t, world)
	server.SetFaults(dnstest.Faults{Delay: hour})
	if got := seenOverTCP(t, server, newQuery("www.example.com.", dns.TypeA), []string{"open"}); got[0] != "open" {
		t.Errorf("over TCP: %q", got)
	}
	if got := seenOverUDP(t, server, newQuery("www.example.com.", dns.TypeA)); got != nil {
		t.Errorf("over UDP: %q", got)
	}
	server.Close()
}

func TestBadTextPanics(t *testing.T) {
	server := dnstest.NewServer(t, "")
	for name, order := range map[string]func(){
		"records":          func() { server.SetRecords("www.example.com. A 1.2.3") },
		"extra answer":     func() { server.SetFaults(dnstest.Faults{ExtraRR: "nonsense"}) },
		"extra authority":  func() { server.SetFaults(dnstest.Faults{ExtraAuthority: "nonsense"}) },
		"extra additional": func() { server.SetFaultsFor("x", dnstest.Faults{ExtraAdditional: "nonsense"}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			order()
		})
	}
}
