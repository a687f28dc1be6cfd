package metrics

import (
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/sys/percpu"
)

// trafficRows are what was asked and answered.
var trafficRows = []row{
	counter("dns_requests_total", "Queries that were answered, or left without an answer on purpose, by transport, address family (1: IPv4, 2: IPv6) and type.",
		and(whole, "proto", "family", "type"), func(s *Sample, put puts) {
			for _, t := range s.Traffic {
				for i, name := range dnsserver.TypeNames {
					put.value(float64(t.Types[i]), server, zone, view, string(t.Proto), family(t), name)
				}
			}
		}),
	counter("dns_do_requests_total", "Queries with the DO bit, which wants DNSSEC's records.", whole, func(s *Sample, put puts) {
		n := uint64(0)
		for _, t := range s.Traffic {
			n += t.DO
		}
		put.value(float64(n), server, zone, view)
	}),
	counter("dns_responses_total", "Responses by response code.", and(whole, "rcode", "plugin"), func(s *Sample, put puts) {
		for i, name := range dnsserver.RcodeNames {
			n := uint64(0)
			for _, t := range s.Traffic {
				n += t.Rcodes[i]
			}
			put.value(float64(n), server, zone, view, name, "")
		}
	}),
	spread("dns_request_duration_seconds", "Time from when a query was received until its response was sent.", whole, func(s *Sample, put puts) {
		var all percpu.Durations
		for _, t := range s.Traffic {
			all.Merge(&t.Durations)
		}
		put.hist(&all, server, zone, view)
	}),
	spread("dns_request_size_bytes", "Size of the queries.", and(whole, "proto"), func(s *Sample, put puts) {
		sizes(s, put, func(t *dnsserver.Traffic) *percpu.Sizes { return &t.Queries })
	}),
	spread("dns_response_size_bytes", "Size of the responses.", and(whole, "proto"), func(s *Sample, put puts) {
		sizes(s, put, func(t *dnsserver.Traffic) *percpu.Sizes { return &t.Responses })
	}),
}

// sizes puts those of each transport.
func sizes(s *Sample, put puts, of func(*dnsserver.Traffic) *percpu.Sizes) {
	for _, proto := range []dnsserver.Proto{dnsserver.UDP, dnsserver.TCP} {
		var all percpu.Sizes
		for i := range s.Traffic {
			if t := &s.Traffic[i]; t.Proto == proto {
				all.Merge(of(t))
			}
		}
		put.hist(&all, server, zone, view, string(proto))
	}
}

// family is CoreDNS' word for an address family.
func family(t dnsserver.Traffic) string {
	if t.IPv6 {
		return "2"
	}
	return "1"
}

// serverRows are what became of what came in, and what the bounds cost.
var serverRows = []row{
	counter("dns_dropped_total", "Messages without a response: too short, responses themselves, or from port 0.", nil, number(func(s *Sample) uint64 { return s.Server.Dropped })),
	counter("dns_truncated_total", "Responses sent with TC, as they were larger than their client takes.", nil, number(func(s *Sample) uint64 { return s.Server.Truncated })),
	counter("dns_write_errors_total", "Responses that could not be sent.", nil, number(func(s *Sample) uint64 { return s.Server.WriteErrors })),
	gauge("dns_in_flight", "Queries that are being answered now.", nil, number(func(s *Sample) int64 { return s.Server.InFlight })),
	gauge("dns_tcp_connections", "Connections of clients that are open now.", nil, number(func(s *Sample) int64 { return s.Server.TCPOpen })),
	counter("limited_total", "Queries or connections that were not served for a bound, by the bound; node-dns status names them in words.",
		[]string{"limit"}, func(s *Sample, put puts) {
			l := s.Status.Queries.Limits
			for _, limit := range []struct {
				name  string
				count uint64
			}{
				{"allow_from", l.Strangers},
				{"client_rate", l.Hasty},
				{"client_share", l.Crowding},
				{"client_cost", l.Costly},
				{"in_flight", l.Full},
				{"forward_max", l.Upstream},
				{"refusals", l.Silenced},
				{"tcp", l.TCPRefused},
				{"tcp_idle", l.TCPIdle},
				{"files", l.NoDescriptors},
			} {
				put.value(float64(limit.count), limit.name)
			}
		}),
	counter("panics_total", "Faults of the program, each of which failed one query or one task.", nil, number(func(s *Sample) uint64 { return s.Status.Queries.Panics })),
	spread("health_request_duration_seconds", "Time that the watchdog's round over the daemon's own listeners took.", nil, func(s *Sample, put puts) {
		put.hist(&s.Health.Durations)
	}),
	counter("health_request_failures_total", "Rounds of the watchdog in which a listener did not answer.", nil, number(func(s *Sample) uint64 { return s.Health.Failures })),
}
