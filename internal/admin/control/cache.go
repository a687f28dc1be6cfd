package control

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

const (
	cacheDumpPath  = "/v1/cache/dump"
	cacheFlushPath = "/v1/cache/flush"
	cacheStatsPath = "/v1/cache/stats"
)

// CachePart selects cached responses by exactly one of its fields. The zero CachePart selects none.
type CachePart struct {
	Name     string `json:"name,omitempty"`     // all types of this name
	Zone     string `json:"zone,omitempty"`     // this name and everything below it
	Negative bool   `json:"negative,omitempty"` // NXDOMAIN, NODATA and failures
	All      bool   `json:"all,omitempty"`
}

// Parts returns the number of fields set. A flush requires exactly one.
func (p CachePart) Parts() (n int) {
	for _, named := range []bool{p.Name != "", p.Zone != "", p.Negative, p.All} {
		if named {
			n++
		}
	}
	return n
}

// CacheEntry is one cached response. Names and data are in master file format (RFC 1035 section
// 5.1).
type CacheEntry struct {
	Name   string   `json:"name"` // queried name
	Type   string   `json:"type"`
	Result string   `json:"result"` // NOERROR, NODATA, NXDOMAIN, SERVFAIL
	TTL    int64    `json:"ttl"`    // remaining seconds; 0 if the entry is stale
	Age    int64    `json:"age"`    // seconds
	Stale  bool     `json:"stale,omitempty"`
	Server string   `json:"server,omitempty"` // source of the response; empty if no server answered
	DO     bool     `json:"do,omitempty"`     // whether the entry is for queries with DO; CD likewise
	CD     bool     `json:"cd,omitempty"`
	AD     bool     `json:"ad,omitempty"` // whether the server validated the response
	Answer []Record `json:"answer"`
	SOA    *Record  `json:"soa,omitempty"` // set for a negative response
}

// CacheFlushed is the result of a flush.
type CacheFlushed struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"` // CacheFlushed
	Entries    int    `json:"entries"`
}

// CacheStats are the cache's statistics: counters since the start, and current contents.
type CacheStats struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"` // CacheStats
	Entries    int          `json:"entries"`
	Size       int          `json:"size"` // maximum number of entries; 0 if the cache is disabled
	Bytes      int          `json:"bytes"`
	MaxBytes   int          `json:"maxBytes"`
	Hits       uint64       `json:"hits"`
	Misses     uint64       `json:"misses"`
	Stale      uint64       `json:"staleServed"` // answers from expired entries; not included in hits or misses
	Prefetched uint64       `json:"prefetched"`
	Insertions uint64       `json:"insertions"`
	Evictions  uint64       `json:"evictions"` // entries removed before they expired
	Results    CacheResults `json:"results"`
}

// CacheResults counts the entries by kind.
type CacheResults struct {
	Answers  int `json:"answers"`
	NoData   int `json:"nodata"`
	NXDomain int `json:"nxdomain"`
	Failures int `json:"failures"`
	Stale    int `json:"stale"`   // included above: expired, and served only when no server answers
	Expired  int `json:"expired"` // not included above: waiting to be replaced
}

// DumpCache calls each with every cached response that part selects in the daemon that listens on
// path. The zero part selects all entries. They arrive in no particular order.
func DumpCache(ctx context.Context, path string, part CachePart, each func(CacheEntry) error) error {
	return follow(ctx, path, cacheDumpPath, part, each)
}

// FlushCache removes the entries that part selects from the cache of the daemon that listens on
// path.
func FlushCache(ctx context.Context, path string, part CachePart) (CacheFlushed, error) {
	return ask[CacheFlushed](ctx, path, cacheFlushPath, part)
}

// FetchCacheStats fetches the cache statistics of the daemon that listens on path.
func FetchCacheStats(ctx context.Context, path string) (CacheStats, error) {
	return ask[CacheStats](ctx, path, cacheStatsPath, nil)
}

// WriteText prints the entry in master file format, one record per line, each with its origin as a
// comment. An entry without records becomes one comment line.
func (e CacheEntry) WriteText(w io.Writer) error {
	e = termtext.All(e)
	var text strings.Builder
	from := e.provenance()
	for _, r := range e.Answer {
		fmt.Fprintf(&text, "%s  %d  %s  %s  %s  ;; %s\n", r.Name, r.TTL, r.Class, r.Type, r.Data, e.question(r)+from)
	}
	if e.Result != "NOERROR" {
		fmt.Fprintf(&text, "; %s  %d  IN  %s  %s  ;; %s", e.Name, e.TTL, e.Type, e.Result, from)
		if r := e.SOA; r != nil {
			fmt.Fprintf(&text, ", %s %s %s", r.Name, r.Type, r.Data)
		}
		text.WriteByte('\n')
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// question names the question that a record answers, if the record itself does not show it.
func (e CacheEntry) question(r Record) string {
	if r.Name == e.Name && r.Type == e.Type {
		return ""
	}
	return "for " + e.Name + " " + e.Type + ", "
}

func (e CacheEntry) provenance() string {
	words := []string{}
	if e.Server != "" {
		words = append(words, e.Server)
	}
	words = append(words, "age "+age(time.Duration(e.Age)*time.Second))
	for _, flag := range []struct {
		isSet bool
		word  string
	}{{e.Stale, "stale"}, {e.DO, "DO"}, {e.CD, "CD"}, {e.AD, "AD"}} {
		if flag.isSet {
			words = append(words, flag.word)
		}
	}
	return strings.Join(words, ", ")
}

// WriteText prints how many entries were flushed.
func (f CacheFlushed) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "flushed %s\n", number(f.Entries, "entry", "entries"))
	return err
}

// WriteText prints the statistics as a page of text.
func (s CacheStats) WriteText(w io.Writer) error {
	p := newPage(w)
	if s.Size == 0 {
		p.row("Entries", "none: the cache is disabled")
		return p.err
	}
	p.row("Entries", fmt.Sprintf("%d of %d", s.Entries, s.Size))
	p.row("Memory", fmt.Sprintf("%d of %d KiB", s.Bytes>>10, s.MaxBytes>>10))
	r := s.Results
	p.row("Results", fmt.Sprintf("%s   %d NXDOMAIN   %d NODATA   %s", number(r.Answers, "answer", "answers"), r.NXDomain, r.NoData,
		number(r.Failures, "failure", "failures"))+fmt.Sprintf("\n%d of them stale   %d more expired", r.Stale, r.Expired))
	hits := fmt.Sprintf("%d", s.Hits)
	if asked := s.Hits + s.Misses; asked > 0 {
		hits += fmt.Sprintf(" (%.1f %%)", 100*float64(s.Hits)/float64(asked))
	}
	p.row("Hits", hits)
	p.row("Misses", fmt.Sprintf("%d", s.Misses))
	p.row("Stale", number(s.Stale, "answer", "answers")+" from expired entries")
	p.row("Prefetched", fmt.Sprintf("%d", s.Prefetched))
	p.row("Inserted", fmt.Sprintf("%d", s.Insertions))
	p.row("Evicted", fmt.Sprintf("%d before they expired", s.Evictions))
	return p.err
}

const recentNamesPath = "/v1/recent-names"

// RecentNames are a few of the names that clients recently queried and that nameservers answered
// or failed to answer, latest first. Names that the node answers itself are not included.
type RecentNames struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`     // RecentNames
	Failed     []RecentName `json:"failed"`   // in the last few minutes
	Negative   []RecentName `json:"negative"` // cached NXDOMAIN and NODATA
	Answered   []RecentName `json:"answered"`
}

// RecentName is one question and its result.
type RecentName struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Result string `json:"result"`           // as in CacheEntry
	Server string `json:"server,omitempty"` // source of the response; empty if no server answered
	Age    int64  `json:"age"`              // seconds
}

// FetchRecentNames fetches the names from the daemon that listens on path.
func FetchRecentNames(ctx context.Context, path string) (RecentNames, error) {
	return ask[RecentNames](ctx, path, recentNamesPath, nil)
}
