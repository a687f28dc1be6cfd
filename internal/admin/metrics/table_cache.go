package metrics

// cached are the labels of what is about the cache: CoreDNS has one for each of its server blocks.
var cached = []string{"server", "zones", "view"}

// cacheRows are what is remembered.
var cacheRows = []row{
	gauge("cache_entries", "Responses that are remembered, by whether they have an answer (success) or not (denial).",
		[]string{"server", "type", "zones", "view"}, func(s *Sample, put puts) {
			put.value(float64(s.Cache.Entries-s.Cache.Denials), server, "success", zone, view)
			put.value(float64(s.Cache.Denials), server, "denial", zone, view)
		}),
	gauge("cache_size", "How many responses are remembered at most.", nil, number(func(s *Sample) int { return s.Cache.Size })),
	gauge("cache_bytes", "Memory that the remembered responses take.", nil, number(func(s *Sample) int { return s.Cache.Bytes })),
	counter("cache_hits_total", "Queries that were answered from memory, by whether there was an answer (success) or none (denial).",
		[]string{"server", "type", "zones", "view"}, func(s *Sample, put puts) {
			put.value(float64(s.Cache.Hits-s.Cache.DenialHits), server, "success", zone, view)
			put.value(float64(s.Cache.DenialHits), server, "denial", zone, view)
		}),
	counter("cache_misses_total", "Queries that were not, and that the upstream nameservers were asked for.", cached, func(s *Sample, put puts) {
		put.value(float64(s.Cache.Misses), server, zone, view)
	}),
	counter("cache_requests_total", "Queries that memory was asked for.", cached, func(s *Sample, put puts) {
		put.value(float64(s.Cache.Hits+s.Cache.Misses+s.Cache.Stale), server, zone, view)
	}),
	counter("cache_evictions_total", "Responses that were forgotten before their time for lack of room, by whether they had an answer.",
		[]string{"server", "type", "zones", "view"}, func(s *Sample, put puts) {
			put.value(float64(s.Cache.Evictions-s.Cache.DenialEvictions), server, "success", zone, view)
			put.value(float64(s.Cache.DenialEvictions), server, "denial", zone, view)
		}),
	counter("cache_served_stale_total", "Queries that were answered with what had expired, as no upstream nameserver answered (RFC 8767).", cached, func(s *Sample, put puts) {
		put.value(float64(s.Cache.Stale), server, zone, view)
	}),
	counter("cache_prefetch_total", "Responses that were asked for anew before they expired.", cached, func(s *Sample, put puts) {
		put.value(float64(s.Cache.Prefetched), server, zone, view)
	}),
	counter("cache_insertions_total", "Responses that were remembered.", nil, number(func(s *Sample) uint64 { return s.Cache.Insertions })),
}
