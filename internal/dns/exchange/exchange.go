// Package exchange is one query to a nameserver and the response to it: it writes the query, tells the response from other messages,
// and carries both over TCP and TLS.
//
// It is apart from forward, which chooses the server and answers the clients, and whose lanes carry the queries over UDP. Here nothing
// is known of routes, of other servers, or of the clients that wait.
package exchange

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A DialerConfig is what a dialer is made of. All of it is needed but RootCAs.
type DialerConfig struct {
	Timeout   time.Duration            // of a connection and its first answer, and of a server that says nothing
	RootCAs   *x509.CertPool           // that DNS over TLS servers are checked with; nil: those of the system
	Work      *sync.WaitGroup          // of the goroutines that the dialer starts
	Recovered func(failed func(error)) // deferred by each of them: recovers a panic, and calls failed with an error
	Log       *slog.Logger

	// Rest is how long no opportunistic connection is made after one that failed; 0: 5 minutes. Pause is the time between any two;
	// 0: a second. A server that ends each after one answer costs no handshake for each question.
	Rest, Pause time.Duration
}

// A Dialer makes the connections to nameservers, and bounds and counts what comes over them. It may be used concurrently.
type Dialer struct {
	DialerConfig
	received chan struct{} // one for each long message that comes in
	read     chan struct{} // one for each that is read

	Ignored    atomic.Uint64 // messages that were no response to a query
	Handshakes atomic.Uint64 // TLS connections
	Resumed    atomic.Uint64 // of which began with what an earlier one left
}

// NewDialer returns a Dialer, which has no connection yet.
func NewDialer(c DialerConfig) *Dialer {
	c.Rest, c.Pause = cmp.Or(c.Rest, restAfterFailure), cmp.Or(c.Pause, betweenDials)
	return &Dialer{
		DialerConfig: c,
		received:     make(chan struct{}, mostReceived),
		read:         make(chan struct{}, readAtATime(runtime.GOMAXPROCS(0))),
	}
}

// shook counts a connection.
func (d *Dialer) shook(conn *tls.Conn) {
	d.Handshakes.Add(1)
	if conn.ConnectionState().DidResume {
		d.Resumed.Add(1)
	}
}
