package dnsserver

import (
	"context"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/sys/journal"
)

// responder decides what becomes of a message, and makes its response. It knows no sockets. Its methods may be called concurrently.
type responder struct {
	cfg      Config
	places   atomic.Int64 // how many queries may be handled at once
	shared   atomic.Int64 // Config.Shared
	largest  atomic.Int64 // octets of a response over UDP
	cookies  cookieSecret
	clock    func() time.Time // that they are made by
	counters counters
	panics   journal.Panics
	buffers  sync.Pool // *[]byte of bufferSize, to pack responses into

	access   atomic.Pointer[Access]   // nil: everyone may ask
	shares   *Shares                  // of the places
	spending *Limiter                 // of octets from upstream nameservers
	errors   *Limiter                 // of responses that say no
	limited  atomic.Uint64            // of which one in slip is sent
	watch    atomic.Pointer[watching] // nil: nobody wants to know

	// queries is the parent of every query's context.
	queries context.Context
	cancel  context.CancelFunc
}

// bufferSize is enough for nearly every response; a larger one gets its own.
const bufferSize = 4096

// panicked is called with what recover returned.
func (r *responder) panicked(x exchange, p any) {
	r.panics.Caught(r.cfg.Log, "answering a query panicked", journal.QueryPanic, p,
		"client", x.client, "query", hex.EncodeToString(x.wire[:min(len(x.wire), 512)]))
}

// recovered is deferred where a panic is to end no more than what is done for one client, whose query is x where there is one.
func (r *responder) recovered(x exchange) {
	if p := recover(); p != nil {
		r.panicked(x, p)
	}
}
