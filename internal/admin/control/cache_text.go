package control

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

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
func (e CacheEntry) question(r CacheRecord) string {
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
