package forward

import (
	"bytes"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestUnreadable: an unreadable response does not count as silence. A name whose only server sent
// nothing else over UDP used to take until its deadline, 4 s.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		faults dnstest.Faults
		want   string
	}{
		{"cut over UDP", dnstest.Faults{CutUDP: true}, "NOERROR www.example.\t300\tIN\tA\t192.0.2.80"},
		{"unreadable over UDP and TCP", dnstest.Faults{Raw: unreadable}, "SERVFAIL"},
	} {
		for name, lanes := range map[string]int{"lanes": 1, "Handler": 0} {
			t.Run(row.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				servers, addresses := startServers(t, 1)
				servers[0].SetFaults(row.faults)
				s := newLaneServer(t, func(c *Config) { c.Deadline, c.Silence, c.Lanes = time.Hour, time.Hour, lanes }, addresses...)
				if got := s.exchange(t, "www.example.", dns.TypeA); got != row.want {
					t.Errorf("got %s, want %s", got, row.want)
				}
			})
		}
	}
}

// unreadable returns a response to query whose only record has an owner that points to itself.
func unreadable(query []byte) [][]byte {
	end := exchange.QuestionEnd(query)
	m := append(bytes.Clone(query[:end]), 0xc0, byte(end), 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 80)
	m[2] |= 0x80
	copy(m[4:], []byte{0, 1, 0, 1, 0, 0, 0, 0}) // one question, one record
	return [][]byte{m}
}
