// Package exchange handles one nameserver: a query and its response, and what they tell about the
// server. It writes the query, distinguishes the response from other messages, and carries both
// over TCP and TLS. An Account keeps whether the server is alive, how long it takes, and its
// support for EDNS, cookies and letter case.
//
// Package forward chooses the server, answers the clients, and carries queries over UDP in its
// lanes. Package exchange knows nothing of routes, other servers or waiting clients.
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

// DialerConfig configures a Dialer. All fields except RootCAs, Rest and Pause are required.
type DialerConfig struct {
	Timeout   time.Duration            // for a connection with its first answer, and for a silent server
	RootCAs   *x509.CertPool           // to verify DNS over TLS servers; nil means the system's
	Work      *sync.WaitGroup          // goroutines that the dialer starts
	Recovered func(failed func(error)) // deferred in each goroutine; on a panic calls failed with an error
	Log       *slog.Logger

	// Rest is the time without opportunistic connections after a failed one; 0 means 5 minutes.
	// Pause is the minimum time between two connections; 0 means one second. It limits handshakes
	// with a server that closes each connection after one answer.
	Rest, Pause time.Duration
}

// Dialer opens connections to nameservers, and limits and counts the messages received over them.
// It may be used concurrently.
type Dialer struct {
	DialerConfig
	received chan struct{} // one entry for each long message being received
	read     chan struct{} // one entry for each long message being parsed

	Ignored    atomic.Uint64 // messages that were not the response to a query
	Handshakes atomic.Uint64 // TLS connections
	Resumed    atomic.Uint64 // TLS connections that resumed a session
}

// NewDialer returns a Dialer without connections.
func NewDialer(c DialerConfig) *Dialer {
	c.Rest, c.Pause = cmp.Or(c.Rest, restAfterFailure), cmp.Or(c.Pause, betweenDials)
	return &Dialer{
		DialerConfig: c,
		received:     make(chan struct{}, mostReceived),
		read:         make(chan struct{}, readAtATime(runtime.GOMAXPROCS(0))),
	}
}

// countHandshake counts a TLS connection.
func (d *Dialer) countHandshake(conn *tls.Conn) {
	d.Handshakes.Add(1)
	if conn.ConnectionState().DidResume {
		d.Resumed.Add(1)
	}
}
