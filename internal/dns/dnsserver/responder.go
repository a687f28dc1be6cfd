package dnsserver

import (
	"context"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/sys/journal"
)

// responder decides how a message is handled and makes its response. It does not use sockets. Its
// methods may be called concurrently.
type responder struct {
	cfg      Config
	places   atomic.Int64 // maximum number of queries handled at once
	shared   atomic.Int64 // Config.Shared
	largest  atomic.Int64 // maximum size of a UDP response in bytes
	cookies  cookieSecret
	clock    func() time.Time // clock for cookies
	counters counters
	panics   journal.Panics
	buffers  sync.Pool // *[]byte of bufferSize, to pack responses into

	access   atomic.Pointer[Access]   // nil allows every client
	shares   *Shares                  // slots per client
	spending *Limiter                 // bytes from upstream nameservers per client
	errors   *Limiter                 // error responses per network
	limited  atomic.Uint64            // number of error responses over that limit
	watch    atomic.Pointer[watching] // nil disables watching

	comesBack atomic.Pointer[IsOwn] // nil while none of our own queries is in flight

	// queries is the parent of every query's context.
	queries context.Context
	cancel  context.CancelFunc
}

// bufferSize is enough for nearly every response; larger ones allocate.
const bufferSize = 4096

// panicked logs a panic. p is the value that recover returned.
func (r *responder) panicked(x exchange, p any) {
	r.panics.Caught(r.cfg.Log, "answering a query panicked", journal.QueryPanic, p,
		"client", x.client, "query", hex.EncodeToString(x.wire[:min(len(x.wire), 512)]))
}

// recovered is deferred where a panic must affect only one client. x is the client's query, if
// there is one.
func (r *responder) recovered(x exchange) {
	if p := recover(); p != nil {
		r.panicked(x, p)
	}
}
