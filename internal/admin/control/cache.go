package control

import "context"

const (
	cacheDumpPath  = "/v1/cache/dump"
	cacheFlushPath = "/v1/cache/flush"
	cacheStatsPath = "/v1/cache/stats"
)

// CachePart says which remembered responses are meant, by one of its fields. The zero CachePart names none.
type CachePart struct {
	Name     string `json:"name,omitempty"`     // all types of this name
	Zone     string `json:"zone,omitempty"`     // this name, and all below it
	Negative bool   `json:"negative,omitempty"` // NXDOMAIN, NODATA, and failures
	All      bool   `json:"all,omitempty"`
}

// Parts is how many things are named: a flush is of one.
func (p CachePart) Parts() (n int) {
	for _, named := range []bool{p.Name != "", p.Zone != "", p.Negative, p.All} {
		if named {
			n++
		}
	}
	return n
}

// CacheEntry is one remembered response. Its names and data are written as in a master file (RFC 1035 section 5.1).
type CacheEntry struct {
	Name   string        `json:"name"` // that was asked for
	Type   string        `json:"type"`
	Result string        `json:"result"` // NOERROR, NODATA, NXDOMAIN, SERVFAIL
	TTL    int64         `json:"ttl"`    // seconds that are left; 0: none are, and it is stale
	Age    int64         `json:"age"`    // seconds
	Stale  bool          `json:"stale,omitempty"`
	Server string        `json:"server,omitempty"` // that it came from; "": nobody answered
	DO     bool          `json:"do,omitempty"`     // it is for queries with DO, or CD
	CD     bool          `json:"cd,omitempty"`
	AD     bool          `json:"ad,omitempty"` // the server has validated it
	Answer []CacheRecord `json:"answer"`
	SOA    *CacheRecord  `json:"soa,omitempty"` // of a negative response
}

// CacheRecord is one resource record.
type CacheRecord struct {
	Name  string `json:"name"`
	TTL   uint32 `json:"ttl"`
	Class string `json:"class"`
	Type  string `json:"type"`
	Data  string `json:"data"`
}

// CacheFlushed says what a flush came to.
type CacheFlushed struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"` // CacheFlushed
	Entries    int    `json:"entries"`
}

// CacheStats are the cache's numbers, the counters since the start, and what is in it now.
type CacheStats struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"` // CacheStats
	Entries    int          `json:"entries"`
	Size       int          `json:"size"` // the bound on entries; 0: the cache is off
	Bytes      int          `json:"bytes"`
	MaxBytes   int          `json:"maxBytes"`
	Hits       uint64       `json:"hits"`
	Misses     uint64       `json:"misses"`
	Stale      uint64       `json:"staleServed"` // answers with what had expired; neither hits nor misses
	Prefetched uint64       `json:"prefetched"`
	Insertions uint64       `json:"insertions"`
	Evictions  uint64       `json:"evictions"` // of what had not expired
	Results    CacheResults `json:"results"`
}

// CacheResults are how many of the entries stand for what.
type CacheResults struct {
	Answers  int `json:"answers"`
	NoData   int `json:"nodata"`
	NXDomain int `json:"nxdomain"`
	Failures int `json:"failures"`
	Stale    int `json:"stale"`   // of these: expired, and given out only where nobody answers
	Expired  int `json:"expired"` // beside these: waiting to be replaced
}

// DumpCache calls each with every remembered response of a part that the daemon listening on path has; the zero part is all of them. They
// come as they are found, in no order.
func DumpCache(ctx context.Context, path string, part CachePart, each func(CacheEntry) error) error {
	return follow(ctx, path, cacheDumpPath, part, each)
}

// FlushCache has the daemon that listens on path forget a part.
func FlushCache(ctx context.Context, path string, part CachePart) (CacheFlushed, error) {
	return ask[CacheFlushed](ctx, path, cacheFlushPath, part)
}

// FetchCacheStats asks the daemon that listens on path.
func FetchCacheStats(ctx context.Context, path string) (CacheStats, error) {
	return ask[CacheStats](ctx, path, cacheStatsPath, nil)
}
