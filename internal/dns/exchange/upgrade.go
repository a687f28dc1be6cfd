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

// What zero means in a DialerConfig.
const (
	restAfterFailure = 5 * time.Minute
	betweenDials     = time.Second
)

// An Upgrade is the way over TLS to a server that was configured as a plain one (opportunistic
// privacy, RFC 7858 section 4.1). It does not check who answers, as over UDP. No question waits for
// it: a question takes the connection if there is one, and goes in the clear otherwise. If the
// connection ends before the answer, the question goes in the clear at once.
type Upgrade struct {
	dialer  *Dialer
	address string
	from    *net.Dialer
	config  *tls.Config
	log     *slog.Logger

	mu       sync.Mutex         // guards what follows
	stream   *Stream            // that has given an answer, or nil. It may have ended
	cancel   context.CancelFunc // of the connection being made, or nil
	nextDial time.Time
	told     string // what the log says last
	checking bool
	retired  bool
}

// Opportunistic returns the way over TLS, at addr, to a plain server.
func (d *Dialer) Opportunistic(s nameserver.Server, addr netip.AddrPort) *Upgrade {
	return &Upgrade{
		dialer:  d,
		address: addr.String(),
		from:    dialerBy("tcp", s, 0),
		config: &tls.Config{
			// Not sent, as it is an address: sessions are remembered by it.
			ServerName: addr.Addr().WithZone("").String(), InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{alpn},
			ClientSessionCache: tls.NewLRUClientSessionCache(keptSessions),
		},
		log: d.Log.With("server", s.String()),
	}
}

// Prepare begins a connection if one is due. The question that goes in the clear does not wait for it.
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

// connect makes a connection and asks a first question over it, so that no client's question goes
// to a server that accepts connections and answers nothing.
func (u *Upgrade) connect(ctx context.Context) (*Stream, error) {
	dialer := tls.Dialer{NetDialer: u.from, Config: u.config}
	conn, err := dialer.DialContext(ctx, "tcp", u.address)
	if err != nil {
		return nil, err
	}
	u.dialer.shook(conn.(*tls.Conn))
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

// settle ends the making of a connection, and returns what the log is to say.
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
	return u.newsLocked("upstream is asked over TLS")
}

// rest leaves the server alone for a while, and returns what the log is to say.
func (u *Upgrade) rest(err error) (news string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.restLocked(err)
}

// restLocked is rest. What this host lacks is no reason to.
func (u *Upgrade) restLocked(err error) (news string) {
	if u.retired || IsLocal(err) {
		return ""
	}
	u.nextDial = time.Now().Add(u.dialer.Rest)
	return u.newsLocked("upstream is asked in the clear")
}

// newsLocked returns the text; "": the log says it already.
func (u *Upgrade) newsLocked(text string) string {
	if u.told == text {
		return ""
	}
	u.told = text
	return text
}

// tell is called without the lock, which every question takes: a log may have to be waited for.
func (u *Upgrade) tell(news string, err error) {
	switch {
	case news == "":
	case err != nil:
		u.log.Info(news, "error", Reason(err))
	default:
		u.log.Info(news)
	}
}

// Current returns the connection, or nil.
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

// Lost is called when a connection has ended under a question, or is to end as nothing comes over it, which fails all questions that
// wait there. One that had answers for clients is replaced with the next question: a server may close it whenever it likes (RFC 7766
// section 6.2.4), and a path may pause; where nothing answers any more that is found out without a client's question.
func (u *Upgrade) Lost(s *Stream, err error) {
	s.fail(err)
	if !s.wasOfUse() {
		u.tell(u.rest(err), err)
	}
}

// Check asks a question over a silent connection, and ends it if no answer comes in time.
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

// Retire lets the connection end with its last question, and has no other made.
func (u *Upgrade) Retire() {
	if s := u.forget(); s != nil {
		s.drain()
	}
}

// Close ends everything at once.
func (u *Upgrade) Close() {
	if s := u.forget(); s != nil {
		s.fail(ErrClosed)
	}
}

// forget returns the connection, which is its caller's to end.
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
