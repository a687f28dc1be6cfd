package hostdns

import (
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/upstream"
)

// TestLacking: where the network offered no usable upstream the last good ones were asked for ever, and nothing said so.
func TestLacking(t *testing.T) {
	ours := withResolvConf(file(oursText))
	tests := []struct {
		name    string
		options []option
		want    string // "": nothing is lacking
	}{
		{"the own address alone", []option{withNetworkManager(dnsConfig("eth0", nodeIP, ""))}, "NetworkManager eth0 (System eth0) names " + nodeIP + ": this node: would loop"},
		{"none: ignore-auto-dns", []option{withNetworkManager()}, "NetworkManager names no nameserver"},
		{"all invalid", []option{withNetworkManager(nm.DNSConfig{Interface: "eth0", Invalid: []string{`"x"`}})}, `NetworkManager names "x": not a nameserver's address`},
		{"the network offers some", []option{withNetworkManager(dnsConfig("eth0", "10.0.0.8", ""))}, ""},
		{"without NetworkManager last-good is what there is", nil, ""},
		{"not connected yet", []option{withNetworkManager(), withoutDefaultRoute()}, ""},
		{"an admin's servers are asked", []option{withNetworkManager(), withAdmin("198.51.100.1", "")}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := host(append([]option{withCaptured(sys), ours}, test.options...)...)
			began := s.Now
			s = after(s, NewPlan(s).Steps(true))
			s.Now = began.Add(time.Hour)
			p := NewPlan(s)
			if len(p.Steps(true)) > 0 {
				t.Errorf("the next run has steps: %s", describe(p, p.Steps(true)))
			}
			want := ""
			if test.want != "" {
				want = "the network offers no usable nameserver since 2026-11-21T04:05:06Z (" + test.want + "): the last good ones are asked: 10.0.0.2 10.0.0.3"
			}
			if p.Lacking != want || s.IsLacking() != (want != "") {
				t.Errorf("%t, %q, want\n%q", s.IsLacking(), p.Lacking, want)
			}
			s.NetworkManager = host(withNetworkManager(dnsConfig("eth0", sys, ""))).NetworkManager
			s = after(s, NewPlan(s).Steps(true))
			if p := NewPlan(s); p.Lacking != "" || s.IsLacking() || strings.Contains(string(s.Record.Data), "lacking") {
				t.Errorf("when it offers some again: %q\n%s", p.Lacking, s.Record.Data)
			}
		})
	}
	record := upstream.Record{Lacking: "x", Since: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}
	if got, err := upstream.ParseRecord(record.Bytes()); err != nil || got.Lacking != "x" || !got.Since.Equal(record.Since.Truncate(time.Second)) {
		t.Errorf("%v, %v", got, err)
	}
}
