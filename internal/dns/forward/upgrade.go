package forward

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

// How long no connection is tried after one that failed, for which the server's answers go in the clear; and after any other: a
// server that ends each after one answer costs no handshake for each question.
const (
	restAfterFailure = 5 * time.Minute
	betweenDials     = time.Second
)

// An upgrade is the way over TLS to a server that was given as a plain one (opportunistic privacy, RFC 7858 section 4.1): whoever
// answers there is believed to be the server, as over UDP. Nobody waits for it. A question takes the connection where there is
// one, and goes in the clear otherwise; one whose connection ends before its answer goes in the clear at once.
type upgrade struct {
	address string
	dialer  *net.Dialer
	config  *tls.Config
	timeout time.Duration // of a connection and its first answer, and of a server that says nothing
	work    *sync.WaitGroup
	counts  *counts
	guard   func(failed func(error)) // Forward.recovered
	log     *slog.Logger

	mu       sync.Mutex         // guards what follows
	stream   *stream            // that has given an answer; nil: none. It may have ended
	cancel   context.CancelFunc // of the connection being made, nil when none is
	nextDial time.Time
	told     string // what the log says last
	checking bool
	retired  bool
}

// tlsAddress is where a plain server may speak TLS: at port 853 of its address (RFC 7858 section 3.1), if it is at port 53. At
// another port is another service, and on loopback nobody listens in.
func tlsAddress(s nameserver.Server) (addr netip.AddrPort, ok bool) {
	addr = netip.AddrPortFrom(s.Addr.Addr(), nameserver.PortTLS)
	return addr, s.Plain() && s.Addr.Port() == nameserver.Port && !s.Addr.Addr().IsLoopback()
}

// newUpgrade returns nil for a server that speaks no TLS but what it was given with.
func newUpgrade(s nameserver.Server, f *Forward) *upgrade {
	addr, ok := f.tlsAddr(s)
	if !ok || s.TLS {
		return nil
	}
	return &upgrade{
		address: addr.String(),
		dialer:  dialerBy("tcp", s, 0),
		config: &tls.Config{
			// Not sent, as it is an address: sessions are remembered by it.
			ServerName: addr.Addr().WithZone("").String(), InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{alpn},
			ClientSessionCache: tls.NewLRUClientSessionCache(keptSessions),
		},
		timeout: f.deadline,
		work:    &f.work,
		counts:  &f.counts,
		guard:   f.recovered,
		log:     f.log.With("server", s.String()),
	}
}

// SetOpportunistic replaces Config.Opportunistic. Questions under way end as they began.
func (f *Forward) SetOpportunistic(is bool) {
	f.setting.Lock()
	defer f.setting.Unlock()
	f.opportunistic = is
	for _, s := range f.table.Load().servers {
		s.setUpgrade(f)
	}
}

// setUpgrade has the server have an upgrade where it is to. Forward.setting is held.
func (s *server) setUpgrade(f *Forward) {
	switch u := s.upgrade.Load(); {
	case f.opportunistic && u == nil:
		s.upgrade.Store(newUpgrade(s.Server, f))
	case !f.opportunistic && u != nil:
		s.upgrade.Store(nil)
		u.retire()
	}
}

// upgraded is the server's connection, where a question need not go in the clear; nil: it must.
func (s *server) upgraded() (*upgrade, *stream) {
	u := s.upgrade.Load()
	if u == nil {
		return nil, nil
	}
	return u, u.current()
}

func (s *server) transport() Transport {
	switch u, conn := s.upgraded(); {
	case u == nil:
		return ""
	case conn == nil:
		return InTheClear
	}
	return Opportunistic
}

// prepare has a connection made, beside the question that goes in the clear, if one may be.
func (u *upgrade) prepare() {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if u.retired || u.cancel != nil || u.currentLocked() != nil || now.Before(u.nextDial) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), u.timeout)
	u.cancel, u.nextDial = cancel, now.Add(betweenDials)
	u.work.Go(func() {
		defer cancel()
		defer u.guard(func(err error) { u.dialed(nil, err) })
		s, err := u.dial(ctx)
		u.dialed(s, err)
	})
}

// dial makes a connection, and has a question answered over it: what takes connections and answers nothing is found out before
// a client's question is.
func (u *upgrade) dial(ctx context.Context) (*stream, error) {
	dialer := tls.Dialer{NetDialer: u.dialer, Config: u.config}
	conn, err := dialer.DialContext(ctx, "tcp", u.address)
	if err != nil {
		return nil, err
	}
	u.counts.shook(conn.(*tls.Conn))
	s := newStream(conn, u.timeout, false, &u.counts.ignored)
	u.work.Go(func() {
		defer u.guard(s.fail)
		s.read()
	})
	if err := s.ping(ctx); err != nil {
		s.fail(err)
		return nil, err
	}
	return s, nil
}

func (u *upgrade) dialed(s *stream, err error) { u.tell(u.settle(s, err), err) }

// settle ends the making of a connection, and returns what the log is to say.
func (u *upgrade) settle(s *stream, err error) (news string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cancel = nil
	switch {
	case u.retired:
		if s != nil {
			s.fail(errClosed)
		}
		return ""
	case err != nil:
		return u.restLocked(err)
	}
	u.stream = s
	return u.newsLocked("upstream is asked over TLS")
}

// rest leaves the server alone for a while, and returns what the log is to say.
func (u *upgrade) rest(err error) (news string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.restLocked(err)
}

// restLocked is rest. What this host lacks is no reason to.
func (u *upgrade) restLocked(err error) (news string) {
	if u.retired || isLocal(err) {
		return ""
	}
	u.nextDial = time.Now().Add(restAfterFailure)
	return u.newsLocked("upstream is asked in the clear")
}

// newsLocked returns the text; "": the log says it already.
func (u *upgrade) newsLocked(text string) string {
	if u.told == text {
		return ""
	}
	u.told = text
	return text
}

// tell is called without the lock, which every question takes: a log may have to be waited for.
func (u *upgrade) tell(news string, err error) {
	switch {
	case news == "":
	case err != nil:
		u.log.Info(news, "error", shortReason(err))
	default:
		u.log.Info(news)
	}
}

// current is the connection; nil: there is none.
func (u *upgrade) current() *stream {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.currentLocked()
}

func (u *upgrade) currentLocked() *stream {
	if u.stream != nil && u.stream.ended() {
		u.stream = nil
	}
	return u.stream
}

// lost is called when a connection has ended under a question, or is to end as nothing comes over it, which fails all questions that
// wait there. One that had answers for clients is replaced with the next question: a server may close it whenever it likes (RFC 7766
// section 6.2.4), and a path may pause; where nothing answers any more that is found out without a client's question.
func (u *upgrade) lost(s *stream, err error) {
	s.fail(err)
	if !s.wasOfUse() {
		u.tell(u.rest(err), err)
	}
}

// check has a connection that has been silent answer a question, or else ends it.
func (u *upgrade) check(s *stream, patience time.Duration) {
	if !u.startCheck() {
		return
	}
	u.work.Go(func() {
		defer u.endCheck()
		defer u.guard(func(error) {})
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		begun := time.Now()
		if err := s.ping(ctx); err != nil && !s.wasHeard(begun) {
			u.lost(s, errTimeout)
		}
	})
}

func (u *upgrade) startCheck() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.checking || u.retired {
		return false
	}
	u.checking = true
	return true
}

func (u *upgrade) endCheck() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.checking = false
}

// retire lets the connection end with its last question, and has no other made.
func (u *upgrade) retire() {
	if s := u.forget(); s != nil {
		s.drain()
	}
}

// close ends everything at once.
func (u *upgrade) close() {
	if s := u.forget(); s != nil {
		s.fail(errClosed)
	}
}

// forget returns the connection, which is its caller's to end.
func (u *upgrade) forget() (s *stream) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.retired = true
	if u.cancel != nil {
		u.cancel()
	}
	s, u.stream = u.stream, nil
	return s
}
