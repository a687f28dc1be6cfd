package cache

import (
	"context"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

func TestRemember(t *testing.T) {
	const soa = "example. 900 IN SOA ns.example. h.example. 1 2 3 4 300"
	cluster := dnsname.MustParse("cluster.local")
	limit := func(n dnsname.Name) time.Duration {
		if n.Within(cluster) {
			return 5 * time.Second
		}
		return 0
	}
	rows := []struct {
		name    string
		config  Config
		qname   string
		rcode   int
		records string
		want    time.Duration
		maxTTL  uint32 // the highest TTL in the response afterwards
	}{
		{name: "the smallest TTL of the answer", records: "a.example. 60 IN A 192.0.2.1\n a.example. 30 IN A 192.0.2.2", want: 30 * time.Second, maxTTL: 60},
		{
			name:    "the smallest TTL of all sections",
			records: "a.example. 60 IN A 192.0.2.1\n authority\n example. 20 IN NS ns.example.\n additional\n ns.example. 10 IN A 192.0.2.53",
			want:    10 * time.Second, maxTTL: 60,
		},
		{name: "at most one day", records: "a.example. 604800 IN A 192.0.2.1", want: 24 * time.Hour, maxTTL: 86400},
		{name: "MaxTTL", config: Config{MaxTTL: 90 * time.Second}, records: "a.example. 300 IN A 192.0.2.1", want: 90 * time.Second, maxTTL: 90},
		{name: "MaxTTL in part of a second", config: Config{MaxTTL: 1900 * time.Millisecond}, records: "a.example. 300 IN A 192.0.2.1", want: time.Second, maxTTL: 1},
		{name: "MinTTL", config: Config{MinTTL: 90 * time.Second}, records: "a.example. 5 IN A 192.0.2.1", want: 90 * time.Second, maxTTL: 90},
		{name: "MinTTL leaves 0 alone", config: Config{MinTTL: 90 * time.Second}, records: "a.example. 0 IN A 192.0.2.1", want: 0},
		{name: "MinTTL does not apply to negative responses", config: Config{MinTTL: 900 * time.Second}, rcode: dns.RcodeNameError, records: "authority\n " + soa, want: 300 * time.Second, maxTTL: 300},
		{name: "NegativeTTL", config: Config{NegativeTTL: 9 * time.Second}, rcode: dns.RcodeNameError, want: 9 * time.Second},
		{name: "NegativeTTL for NODATA", config: Config{NegativeTTL: 9 * time.Second}, want: 9 * time.Second},
		{name: "NegativeTTL and an alias with a smaller TTL", config: Config{NegativeTTL: 9 * time.Second}, records: "a.example. 4 IN CNAME b.other.test.", want: 4 * time.Second, maxTTL: 4},
		{name: "NegativeTTL and an alias that must not be stored", config: Config{NegativeTTL: 9 * time.Second}, records: "a.example. 0 IN CNAME b.other.test.", want: 0},
		{name: "NegativeTTL does not apply with an SOA", config: Config{NegativeTTL: 9 * time.Second}, rcode: dns.RcodeNameError, records: "authority\n " + soa, want: 300 * time.Second, maxTTL: 300},
		{name: "NegativeTTL with negative caching off", config: Config{NegativeTTL: 9 * time.Second, MaxNegativeTTL: -1}, rcode: dns.RcodeNameError, want: 0},
		{name: "NegativeTTL does not apply to SERVFAIL", config: Config{NegativeTTL: 9 * time.Second}, rcode: dns.RcodeServerFailure, want: 0},
		{name: "NXDOMAIN: the SOA's minimum", rcode: dns.RcodeNameError, records: "authority\n " + soa, want: 300 * time.Second, maxTTL: 300},
		{
			name: "NXDOMAIN: the SOA's TTL when smaller", rcode: dns.RcodeNameError,
			records: "authority\n example. 100 IN SOA ns.example. h.example. 1 2 3 4 300", want: 100 * time.Second, maxTTL: 100,
		},
		{name: "NODATA", records: "authority\n " + soa, want: 300 * time.Second, maxTTL: 300},
		{name: "SOA of the root", rcode: dns.RcodeNameError, records: "authority\n . 900 IN SOA a. b. 1 2 3 4 300", want: 300 * time.Second, maxTTL: 300},
		{name: "owner of the SOA in capitals", rcode: dns.RcodeNameError, records: "authority\n EXAMPLE. 900 IN SOA a. b. 1 2 3 4 300", want: 300 * time.Second, maxTTL: 300},
		{
			name:    "NODATA of a CNAME target in another zone",
			records: "a.example. 200 IN CNAME b.other.test.\n authority\n other.test. 900 IN SOA a. b. 1 2 3 4 300", want: 200 * time.Second, maxTTL: 300,
		},
		{
			name: "NXDOMAIN with NSEC proof", rcode: dns.RcodeNameError,
			records: "authority\n " + soa + "\n example. 120 IN NSEC b.example. A RRSIG", want: 120 * time.Second, maxTTL: 300,
		},
		{
			name: "negative response: at most one hour", rcode: dns.RcodeNameError,
			records: "authority\n example. 90000 IN SOA ns.example. h.example. 1 2 3 4 90000", want: time.Hour, maxTTL: 3600,
		},
		{name: "MaxNegativeTTL", config: Config{MaxNegativeTTL: 7 * time.Second}, rcode: dns.RcodeNameError, records: "authority\n " + soa, want: 7 * time.Second, maxTTL: 7},
		{name: "MaxTTL does not apply to negative responses", config: Config{MaxTTL: 7 * time.Second}, rcode: dns.RcodeNameError, records: "authority\n " + soa, want: 300 * time.Second, maxTTL: 300},
		{name: "Limit of the name", config: Config{Limit: limit}, qname: "a.cluster.local.", records: "a.cluster.local. 30 IN A 192.0.2.1", want: 5 * time.Second, maxTTL: 5},
		{
			name: "Limit of the name, negative", config: Config{Limit: limit}, qname: "a.cluster.local.", rcode: dns.RcodeNameError,
			records: "authority\n cluster.local. 30 IN SOA a. b. 1 2 3 4 30", want: 5 * time.Second, maxTTL: 5,
		},
		{name: "Limit of other names", config: Config{Limit: limit}, records: "a.example. 30 IN A 192.0.2.1", want: 30 * time.Second, maxTTL: 30},
		// A response that is not stored is not changed: the client gets the upstream's TTL.
		{name: "uncached response is unchanged", config: Config{Limit: func(dnsname.Name) time.Duration { return -1 }}, records: "a.example. 999999 IN A 192.0.2.1", want: 0, maxTTL: 999999},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if row.qname == "" {
				row.qname = "a.example."
			}
			q := query(row.qname, dns.TypeA, flags{})
			m := response(t, q.Msg, row.rcode, row.records)
			if got := newLimits(row.config).remember(q, m); got != row.want {
				t.Errorf("remembered for %v, want %v", got, row.want)
			}
			var highest uint32
			eachTTL(m, func(ttl uint32) uint32 {
				highest = max(highest, ttl)
				return ttl
			})
			if highest != row.maxTTL {
				t.Errorf("highest TTL %d, want %d", highest, row.maxTTL)
			}
		})
	}
}

// TestNamesEnd: the common suffix of names begins at a label, after an unescaped dot, in any letter
// case. Both functions compare byte by byte, without memory for the labels: an owner of 125
// labels took 500 bytes for each byte of its records.
func TestNamesEnd(t *testing.T) {
	for _, test := range []struct {
		name, zone string
		isWithin   bool
		inCase     string
	}{
		{"www.example.", "example.", true, "www.example."},
		{"WWW.Example.", "eXample.", true, "WWW.eXample."},
		{"WWW.EXAMPLE.", "ftp.example.", false, "WWW.example."},
		{"EXAMPLE.", "www.example.", false, "example."},
		{"EXAMPLE.", "example.", true, "example."},
		{"myEXAMPLE.", "example.", false, "myEXAMPLE."},
		{`my\.EXAMPLE.`, "example.", false, `my\.EXAMPLE.`},
		{`my\\.EXAMPLE.`, "example.", true, `my\\.example.`},
		{`a\001.B.`, "001.b.", false, `a\001.b.`},
		{"Example.", "test.", false, "Example."},
		{"Example.", ".", true, "Example."},
		{".", "example.", false, "."},
		{".", ".", true, "."},
	} {
		t.Run(test.name+" "+test.zone, func(t *testing.T) {
			if got := isWithin(test.name, test.zone); got != test.isWithin {
				t.Errorf("isWithin: got %v", got)
			}
			if got := withSuffix(test.name, test.zone); got != test.inCase {
				t.Errorf("written as %s, want %s", got, test.inCase)
			}
		})
	}
}

// TestLimitsWithoutRoom: a disabled cache limits TTLs like an enabled one. A SOA record kept a TTL
// above its minimum.
func TestLimitsWithoutRoom(t *testing.T) {
	for _, size := range []int{0, 10} {
		q := query("nowhere.example.", dns.TypeA, flags{})
		c := New(Config{Size: size, MaxTTL: 100 * time.Second, Next: dnsserver.HandlerFunc(func(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
			return response(t, q.Msg, dns.RcodeNameError, "authority\nexample. 600 IN SOA ns.example. root.example. 1 2 3 4 30"), nil
		})})
		m, err := c.ServeDNS(t.Context(), q)
		if err != nil || m.Ns[0].Header().Ttl != 30 {
			t.Errorf("size %d: %v, %v", size, m, err)
		}
	}
}
