package dnsserver

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestSize(t *testing.T) {
	tests := []struct {
		name    string
		proto   Proto
		records int
		change  func(*dns.Msg)
		largest int
		tc      bool
		size    int // Config.UDPSize
	}{
		{"no EDNS, fits", UDP, 20, func(*dns.Msg) {}, 512, false, 0},
		{"no EDNS (trunc512)", UDP, 100, func(*dns.Msg) {}, 512, true, 0},
		{"EDNS size 0 (edns0size)", UDP, 100, edns(0), 512, true, 0},
		{"EDNS size 511", UDP, 100, edns(511), 512, true, 0},
		{"EDNS size 600", UDP, 100, edns(600), 600, true, 0},
		{"EDNS size 1232, fits (edns1232)", UDP, 60, edns(1232), 1232, false, 0},
		{"EDNS size 1232", UDP, 100, edns(1232), 1232, true, 0},
		{"EDNS size 4096 is limited to 1232", UDP, 100, edns(4096), 1232, true, 0},
		{"4096 allowed", UDP, 100, edns(4096), 4096, false, 4096},
		{"4096 allowed, no EDNS", UDP, 100, func(*dns.Msg) {}, 512, true, 4096},
		{"4096 allowed, more", UDP, 400, edns(4096), 4096, true, 4096},
		{"512 allowed", UDP, 100, edns(4096), 512, true, 512},
		{"100 allowed", UDP, 100, edns(4096), 512, true, 100},
		{"TCP whole (tcp-big)", TCP, 900, func(*dns.Msg) {}, 65535, false, 0},
		{"TCP, more than 65535 octets", TCP, 5000, func(*dns.Msg) {}, 65535, true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, addr := start(t, Config{Handler: fixed(addresses(tt.records)...), UDPSize: tt.size})
			c := dial(t, tt.proto, addr)
			asked := query("www.example.com.", dns.TypeA, tt.change)
			c.send(packed(t, asked))
			wire := c.receiveWire()
			m := new(dns.Msg)
			if err := m.Unpack(wire); err != nil {
				t.Fatal(err)
			}
			if len(wire) > tt.largest || m.Truncated != tt.tc || (len(m.Answer) == tt.records) == tt.tc {
				t.Errorf("%d octets, TC %v, %d of %d records", len(wire), m.Truncated, len(m.Answer), tt.records)
			}
			if tt.tc && len(wire) < tt.largest-50 {
				t.Errorf("%d octets of %d used", len(wire), tt.largest)
			}
			if (m.IsEdns0() != nil) != (asked.IsEdns0() != nil) {
				t.Errorf("got OPT record %v", m.IsEdns0())
			}
			if got := s.Stats().Truncated; (got == 1) != tt.tc {
				t.Errorf("counted %d truncated", got)
			}
		})
	}
}

// TestSizeOfTheRest: truncation drops what a client does not need before it drops what the client
// would have to query again.
func TestSizeOfTheRest(t *testing.T) {
	m := answerOf(addresses(20)...)
	m.Extra = answerOf(addresses(60)...).Answer
	extra := slices.Clone(m.Extra)
	_, addr := start(t, Config{Handler: HandlerFunc(func(context.Context, *Query) (*dns.Msg, error) { return m, nil })})
	r := dial(t, UDP, addr).exchange(query("www.example.com.", dns.TypeA, edns(512)))
	if r.Truncated || len(r.Answer) != 20 || len(r.Extra) != 1 {
		t.Errorf("TC %v, %d answers, %d additional records", r.Truncated, len(r.Answer), len(r.Extra))
	}
	if len(m.Answer) != 20 || !slices.Equal(m.Extra, extra) || m.Id != 0 || m.Response {
		t.Error("the Handler's message was modified")
	}
}

// TestSizeOfExplanations: the longest name with the longest explanation fits the smallest client
// buffer, and too many explanations are dropped.
func TestSizeOfExplanations(t *testing.T) {
	label := strings.Repeat("a", 63) + "."
	longest := label + label + label + strings.Repeat("a", 61) + "."
	why := &ExtendedError{Code: dns.ExtendedErrorCodeOther, Text: strings.Repeat("é", 500) + "\xff"}
	many := new(dns.Msg)
	many.SetEdns0(1232, false)
	for range 20 {
		many.IsEdns0().Option = append(many.IsEdns0().Option, &dns.EDNS0_EDE{ExtraText: strings.Repeat("x", 128)})
	}
	_, addr := start(t, Config{Handler: HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
		if q.Msg.Question[0].Qtype == dns.TypeA {
			return nil, why
		}
		return many, nil
	})})
	c := dial(t, UDP, addr)
	r := c.exchange(query(longest, dns.TypeA, edns(512)))
	if opt := r.IsEdns0(); r.Truncated || opt == nil || len(opt.Option) != 1 {
		t.Fatalf("got %v", r)
	}
	if text := r.IsEdns0().Option[0].(*dns.EDNS0_EDE).ExtraText; text != strings.Repeat("é", 62)+" ..." {
		t.Errorf("text is %d octets: %q", len(text), text)
	}
	r = c.exchange(query(longest, dns.TypeAAAA, edns(512)))
	if opt := r.IsEdns0(); !r.Truncated || opt == nil || len(opt.Option) != 0 {
		t.Errorf("got %v, want TC and an empty OPT record", r)
	}
	r = c.exchange(query("www.example.com.", dns.TypeAAAA, edns(1232)))
	if got := len(r.IsEdns0().Option); got != maxOptions {
		t.Errorf("got %d explanations, want %d", got, maxOptions)
	}
}

func TestExtendedError(t *testing.T) {
	cause := context.DeadlineExceeded
	e := &ExtendedError{Code: dns.ExtendedErrorCodeNetworkError, Text: "10.0.0.2", Err: cause}
	if got, want := e.Error(), "EDE 23 (Network Error): 10.0.0.2: context deadline exceeded"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if e.Unwrap() != cause {
		t.Error("Unwrap is not the cause")
	}
}
