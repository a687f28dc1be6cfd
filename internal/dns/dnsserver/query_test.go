package dnsserver

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// TestTraceEnter: the trace names the handler that answers, and not those that delegated to it.
func TestTraceEnter(t *testing.T) {
	q := &Query{Msg: query("www.example.", dns.TypeA), Inquiry: &Inquiry{Trace: NewTrace()}}
	answer := func(m *dns.Msg, err error) func() (*dns.Msg, error) {
		return func() (*dns.Msg, error) { return m, err }
	}
	_, _ = q.Trace().Enter("outer", q, func() (*dns.Msg, error) { return q.Trace().Enter("inner", q, answer(new(dns.Msg), nil)) })
	_, _ = q.Trace().Enter("fails", q, answer(nil, errors.New("broken")))
	_, _ = q.Trace().Enter("silent", q, answer(nil, nil))
	_, _ = q.Trace().Enter("denies", q, answer(&dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeNameError}}, nil))
	var got []string
	steps, _ := q.Trace().Steps()
	for _, step := range steps {
		got = append(got, strings.TrimPrefix(step.What, "answered by "))
	}
	const name = ": www.example. A "
	want := fmt.Sprint([]string{"inner" + name + "NODATA", "fails" + name + "SERVFAIL", "silent" + name + "nothing", "denies" + name + "NXDOMAIN"})
	if fmt.Sprint(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
	if (&Query{}).Trace() != nil || (&Query{}).SkipsCache() {
		t.Error("a client's query has a trace or skips the cache")
	}
}

// TestTraceIsBounded: steps beyond the limit are counted, even when added concurrently.
func TestTraceIsBounded(t *testing.T) {
	trace := NewTrace()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range maxSteps {
				trace.Note("a step")
			}
		})
	}
	all.Wait()
	if steps, more := trace.Steps(); len(steps) != maxSteps || more != 3*maxSteps {
		t.Errorf("%d steps, %d more", len(steps), more)
	}
}
