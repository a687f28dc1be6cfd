package cache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// TestFirstCause: a client that repeats its query a moment later also gets the first cause of a
// failure and its server, parsed and in wire format. The second client used to get only "failed a
// moment ago", and that was usually the investigating admin.
func TestFirstCause(t *testing.T) {
	longest := strings.TrimSuffix(strings.Repeat(strings.Repeat("a", 61)+".", 4), ".") + ".abc."
	for _, test := range []struct {
		name    string
		options []dns.EDNS0
		err     error
		want    string
	}{
		{name: "no cause", want: "13"},
		{name: "EDE of the nameserver", options: []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: 6, ExtraText: "no DNSKEY"}}, want: `13, 6 "no DNSKEY"`},
		{name: "EDE without text", options: []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: 9}}, want: `13, 9 ""`},
		{name: "EDE of a cached failure", options: []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: 13}, &dns.EDNS0_EDE{InfoCode: 6}}, want: `13, 6 ""`},
		{name: "EDE 13 only", options: []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: 13}}, want: "13"},
		{name: "another option", options: []dns.EDNS0{&dns.EDNS0_PADDING{Padding: make([]byte, 8)}}, want: "13"},
		{name: "error of the forwarder", err: fmt.Errorf("asking: %w", errNoResponse), want: `13, 22 "no response"`},
		{
			name: "text that is too long and not UTF-8", options: []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: 6, ExtraText: strings.Repeat("\xff\x1b", 100)}},
			want: `13, 6 "` + strings.Repeat("\ufffd\x1b", 31) + ` ..."`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			next := dnsserver.HandlerFunc(func(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
				if test.err != nil {
					return nil, test.err
				}
				q.AnsweredBy = nameserver.MustParse("192.0.2.53")
				m := new(dns.Msg).SetRcode(q.Msg, dns.RcodeServerFailure)
				m.SetEdns0(1232, false)
				m.IsEdns0().Option = test.options
				return m, nil
			})
			now := time.Now()
			c := New(Config{Next: next, Size: 10, Now: func() time.Time { return now }})
			ask := func() (*dnsserver.Query, error) {
				q := query(longest, dns.TypeA, flags{do: true})
				_, err := c.ServeDNS(t.Context(), q)
				return q, err
			}
			_, _ = ask()
			q, err := ask()
			var why *dnsserver.ExtendedError
			if !errors.As(err, &why) {
				t.Fatal(err)
			}
			if !q.Cached || q.AnsweredBy.IsZero() != (test.err != nil) {
				t.Errorf("from %s, cached %v", q.AnsweredBy, q.Cached)
			}
			parsed := []dns.EDNS0{why.Option()}
			if why.First != nil {
				parsed = append(parsed, why.First.Option())
			}
			if got := causes(parsed); got != test.want {
				t.Errorf("parsed: %s, want %s", got, test.want)
			}
			for _, edns := range []bool{true, false} {
				asked := query(longest, dns.TypeA, flags{do: true})
				if !edns {
					asked.Msg.Extra = nil
					_, _ = c.ServeDNS(t.Context(), asked)
				}
				response, ok := c.AppendResponse(nil, onWire(t, asked), 0)
				m := new(dns.Msg)
				if err := m.Unpack(response); !ok || err != nil || m.Rcode != dns.RcodeServerFailure || len(response) > 512 {
					t.Fatalf("%v, %v, %d octets, %v", ok, m, len(response), err)
				}
				if !edns {
					if len(m.Extra) > 0 {
						t.Errorf("without EDNS: %v", m.Extra)
					}
					continue
				}
				if got := causes(m.IsEdns0().Option); got != test.want {
					t.Errorf("on the wire: %s, want %s", got, test.want)
				}
			}
			c.Walk(func(r Remembered) bool {
				if m := r.Msg(); m == nil || len(m.Extra) > 0 {
					t.Errorf("dumped: %v", m)
				}
				return true
			})
		})
	}
}

// causes formats the codes of Extended DNS Errors, and the EXTRA-TEXT of all but the first.
func causes(options []dns.EDNS0) string {
	var texts []string
	for i, option := range options {
		e := option.(*dns.EDNS0_EDE)
		text := fmt.Sprint(e.InfoCode)
		if i > 0 {
			text += ` "` + e.ExtraText + `"`
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
