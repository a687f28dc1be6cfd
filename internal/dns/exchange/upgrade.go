package exchange

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Defaults for zero values in a DialerConfig.
const (
	restAfterFailure = 5 * time.Minute
	betweenDials     = time.Second
)

// An Upgrade connects over TLS to a server that is configured as a plain one (opportunistic
// privacy, RFC 7858 section 4.1). It does not authenticate the server, just like UDP. No question
// waits for it: a question uses the connection if there is one, and otherwise goes unencrypted. If
// the connection ends before the answer, the question is resent unencrypted at once.
type Upgrade struct {
	dialer  *Dialer
	address string
	from    *net.Dialer
	config  *tls.Config
	log     *slog.Logger

	mu       sync.Mutex         // guards the fields below
	stream   *Stream            // stream that has given an answer, or nil; it may have ended
	cancel   context.CancelFunc // cancels the current connection attempt; nil if there is none
	nextDial time.Time
	told     string // last state written to the log
	checking bool
	retired  bool
}

// Opportunistic returns the Upgrade to a plain server, with TLS at addr.
func (d *Dialer) Opportunistic(s nameserver.Server, addr netip.AddrPort) *Upgrade {
	return &Upgrade{
		dialer:  d,
		address: addr.String(),
		from:    dialerBy("tcp", s, 0),
		config: &tls.Config{
			// An address is not sent as SNI; it is the key for session resumption.
			ServerName: addr.Addr().WithZone("").String(), InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{alpn},
			ClientSessionCache: tls.NewLRUClientSessionCache(keptSessions),
		},
		log: d.Log.With("server", s.String()),
	}
}

// Prepare starts a connection attempt if one is due. The current question does not wait for it and
// goes unencrypted.
func (u *Upgrade) Prepare() {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if u.retired || u.cancel != nil || u.currentLocked() != nil || now.Before(u.nextDial) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), u.dialer.Timeout)
	u.cancel, u.nextDial = cancel, now.Add(u.dialer.Pause)
	u.dialer.Work.Go(func() {
		defer cancel()
		defer u.dialer.Recovered(func(err error) { u.dialed(nil, err) })
		s, err := u.connect(ctx)
		u.dialed(s, err)
	})
}

// connect opens a connection and sends a first question over it, so that no client's question goes
// to a server that accepts connections but does not answer.
func (u *Upgrade) connect(ctx context.Context) (*Stream, error) {
	dialer := tls.Dialer{NetDialer: u.from, Config: u.config}
	conn, err := dialer.DialContext(ctx, "tcp", u.address)
	if err != nil {
		return nil, err
	}
	u.dialer.countHandshake(conn.(*tls.Conn))
	s := newStream(conn, u.dialer.Timeout, false, &u.dialer.Ignored)
	u.dialer.Work.Go(func() {
		defer u.dialer.Recovered(s.fail)
		s.read()
	})
	if err := s.ping(ctx); err != nil {
		s.fail(err)
		return nil, err
	}
	return s, nil
}

func (u *Upgrade) dialed(s *Stream, err error) { u.tell(u.settle(s, err), err) }

// settle finishes a connection attempt and returns the text to log.
func (u *Upgrade) settle(s *Stream, err error) (news string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cancel = nil
	switch {
	case u.retired:
		if s != nil {
			s.fail(ErrClosed)
		}
		return ""
	case err != nil:
		return u.restLocked(err)
	}
	u.stream = s
	return u.newsLocked("upstream is queried over TLS")
}

// rest suspends attempts for a while and returns the text to log.
func (u *Upgrade) rest(err error) (news string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.restLocked(err)
}

// restLocked is rest with u.mu held. Errors of this host do not suspend attempts.
func (u *Upgrade) restLocked(err error) (news string) {
	if u.retired || IsLocal(err) {
		return ""
	}
	u.nextDial = time.Now().Add(u.dialer.Rest)
	return u.newsLocked("upstream is queried unencrypted")
}

// newsLocked returns the text, or "" if the log already says it.
func (u *Upgrade) newsLocked(text string) string {
	if u.told == text {
		return ""
	}
	u.told = text
	return text
}

// tell is called without the lock, which every question takes, because logging may block.
func (u *Upgrade) tell(news string, err error) {
	switch {
	case news == "":
	case err != nil:
		u.log.Info(news, "error", Reason(err))
	default:
		u.log.Info(news)
	}
}

// Current returns the connection, or nil if there is none.
func (u *Upgrade) Current() *Stream {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.currentLocked()
}

func (u *Upgrade) currentLocked() *Stream {
	if u.stream != nil && u.stream.Ended() {
		u.stream = nil
	}
	return u.stream
}

// Lost is called when a connection ended while questions waited on it, or must end because it is
// silent. It fails all of them. A connection that answered clients is replaced at the next
// question, because a server may close it at any time (RFC 7766 section 6.2.4) and a path may
// pause. If the server no longer answers, the ping of the new connection detects that without a
// client's question.
func (u *Upgrade) Lost(s *Stream, err error) {
	s.fail(err)
	if !s.wasUseful() {
		u.tell(u.rest(err), err)
	}
}

// Check sends a question over a silent connection and closes it if no answer comes in time.
func (u *Upgrade) Check(s *Stream, patience time.Duration) {
	if !u.startCheck() {
		return
	}
	u.dialer.Work.Go(func() {
		defer u.endCheck()
		defer u.dialer.Recovered(func(error) {})
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		begun := time.Now()
		if err := s.ping(ctx); err != nil && !s.WasHeard(begun) {
			u.Lost(s, ErrTimeout)
		}
	})
}

func (u *Upgrade) startCheck() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.checking || u.retired {
		return false
	}
	u.checking = true
	return true
}

func (u *Upgrade) endCheck() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.checking = false
}

// Retire closes the connection after its last question and prevents new ones.
func (u *Upgrade) Retire() {
	if s := u.forget(); s != nil {
		s.drain()
	}
}

// Close closes the connection at once and fails all questions.
func (u *Upgrade) Close() {
	if s := u.forget(); s != nil {
		s.fail(ErrClosed)
	}
}

// forget returns the connection, which the caller must end.
func (u *Upgrade) forget() (s *Stream) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.retired = true
	if u.cancel != nil {
		u.cancel()
	}
	s, u.stream = u.stream, nil
	return s
}
