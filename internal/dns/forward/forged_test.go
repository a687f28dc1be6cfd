package forward

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/exchange"
)

var (
	trueAddr   = netip.MustParseAddr("192.0.2.80")
	forgedAddr = netip.MustParseAddr("6.6.6.6")
)

// forgeries are messages that an attacker sends to the port of a question before its server
// answers. Each is a right answer except for the change of its row; i is the number of earlier
// ones.
var forgeries = []struct {
	name  string
	forge func(right []byte, i int) []byte
	// isUnreadable: the ID and question are right, so the question is also sent over TCP.
	isUnreadable bool
}{
	{"another ID", func(m []byte, i int) []byte {
		id := uint16(m[0])<<8 | uint16(m[1])
		binary.BigEndian.PutUint16(m, id+1+uint16(i%0xfff0))
		return m
	}, false},
	{"another name", func(m []byte, i int) []byte { m[sizeOfHeader+1] ^= byte(1 + i%30); return m }, false},
	{"subdomain", func(m []byte, _ int) []byte { return grow(m, []byte{1, 'x'}) }, false},
	{"parent domain", func(m []byte, _ int) []byte {
		first := sizeOfHeader + 1 + int(m[sizeOfHeader])
		return append(bytes.Clone(m[:sizeOfHeader]), m[first:]...)
	}, false},
	{"another type", func(m []byte, _ int) []byte { m[exchange.QuestionEnd(m)-3] = byte(dns.TypeAAAA); return m }, false},
	{"another class", func(m []byte, _ int) []byte { m[exchange.QuestionEnd(m)-1] = byte(dns.ClassCHAOS); return m }, false},
	{"no question", func(m []byte, _ int) []byte {
		end := exchange.QuestionEnd(m)
		m[5] = 0
		return append(bytes.Clone(m[:sizeOfHeader]), m[end:]...)
	}, false},
	{"two questions", func(m []byte, _ int) []byte {
		end := exchange.QuestionEnd(m)
		m[5] = 2
		return append(append(bytes.Clone(m[:end]), m[sizeOfHeader:end]...), m[end:]...)
	}, false},
	{"a query", func(m []byte, _ int) []byte { m[2] &^= 0x80; return m }, false},
	{"another opcode", func(m []byte, i int) []byte { m[2] |= byte(1+i%15) << 3; return m }, false},
	{"cut", func(m []byte, i int) []byte { return m[:i%(len(m)-1)] }, true},
	{"record count too high", func(m []byte, i int) []byte { m[7] += byte(1 + i%200); return m }, true},
	{"name that points to itself", func(m []byte, _ int) []byte { m[exchange.QuestionEnd(m)+1] = byte(exchange.QuestionEnd(m)); return m }, true},
}

// grow inserts a label before the qname.
func grow(m, label []byte) []byte {
	return append(append(bytes.Clone(m[:sizeOfHeader]), label...), m[sizeOfHeader:]...)
}

// forgedCopies is the number of forgeries before each right answer.
const forgedCopies = 100

// TestForged: forged responses are never accepted and never end the wait (CVE-2020-25685 DNSpooq,
// CVE-2023-28452 TuDoor). After up to two, the right answer is still taken. After three, the
// question moves to TCP and the socket is closed, so an attacker who knows the port and tries one
// ID after the other has three guesses. Without that rule, 2,000,000 tries poisoned 2 of 40
// questions; with it, 4,000,000 tries poisoned 0 of 80.
func TestForged(t *testing.T) {
	t.Parallel()
	questions := 100
	if testing.Short() {
		questions = 20
	}
	for _, row := range forgeries {
		for _, copies := range []int{maxStrays - 1, forgedCopies} {
			for _, road := range []struct {
				name  string
				lanes int
			}{{"lanes", 1}, {"Handler", 0}} {
				t.Run(fmt.Sprintf("%s/%d/%s", row.name, copies, road.name), func(t *testing.T) {
					t.Parallel()
					n := 0
					p := newPeer(t, func(query []byte, overTCP bool) (responses [][]byte) {
						for range copies {
							if overTCP { // the attacker cannot forge TCP
								break
							}
							responses = append(responses, row.forge(answerTo(query, forgedAddr), n))
							n++
						}
						return append(responses, answerTo(query, trueAddr))
					})
					s := newLaneServer(t, func(c *Config) { patient(c); c.Lanes = road.lanes }, p.address)
					s.noStale.Store(true) // a busy machine may exceed the wait for a stale answer
					for i := range questions {
						name := fmt.Sprintf("n%d.example.", i)
						if got := s.exchange(t, name, dns.TypeA); got != "NOERROR "+name+"\t300\tIN\tA\t"+trueAddr.String() {
							t.Fatal(got)
						}
					}
					checkForged(t, s.f.Stats(), questions, copies, row.isUnreadable)
					if (s.handled.Load() == 0) != (road.lanes > 0) {
						t.Errorf("the Handler got %d queries", s.handled.Load())
					}
				})
			}
		}
	}
}

// checkForged compares the counters. An unreadable response starts TCP at once, so the later
// forgeries may go unread.
func checkForged(t *testing.T, got Stats, questions, copies int, isUnreadable bool) {
	t.Helper()
	seen, moved := uint64(questions*min(copies, maxStrays)), uint64(0)
	if copies >= maxStrays {
		moved = uint64(questions)
	}
	isWrong := got.Ignored != seen || got.OverTCP != moved || got.Moved != moved
	if isUnreadable {
		isWrong = got.Ignored > seen || got.OverTCP > uint64(questions) || got.Moved > moved
	}
	if isWrong || got.Unanswered != 0 {
		t.Errorf("want at most %d messages ignored and %d questions moved, got %+v", seen, moved, got)
	}
}

// TestForgedSource: the kernel drops packets from other ports and addresses (CVE-2020-25684,
// DNSpooq).
func TestForgedSource(t *testing.T) {
	var others []*net.UDPConn
	for _, from := range []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)} {
		other, err := net.ListenUDP("udp4", &net.UDPAddr{IP: from})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		others = append(others, other)
	}
	for _, lanes := range []int{1, 0} {
		var p *peer
		made := make(chan struct{})
		p = newPeer(t, func(query []byte, _ bool) [][]byte {
			<-made
			client := p.queries[len(p.queries)-1].from
			for i := range forgedCopies {
				// Refused, because no socket listens for it.
				_, _ = others[i%len(others)].WriteToUDPAddrPort(answerTo(query, forgedAddr), client)
			}
			return [][]byte{answerTo(query, trueAddr)}
		})
		close(made)
		s := newLaneServer(t, func(c *Config) { patient(c); c.Lanes = lanes }, p.address)
		for i := range 100 {
			name := fmt.Sprintf("n%d.example.", i)
			if got := s.exchange(t, name, dns.TypeA); got != "NOERROR "+name+"\t300\tIN\tA\t"+trueAddr.String() {
				t.Fatal(got)
			}
		}
		if got := s.f.Stats(); got.Ignored != 0 {
			t.Errorf("%d forged packets reached us", got.Ignored)
		}
	}
}
