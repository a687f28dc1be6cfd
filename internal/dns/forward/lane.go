package forward

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// A lane is an event loop. It owns the questions that hash to it, their sockets and timers, and has one goroutine, the watcher. A
// question needs no goroutine and no stack of its own.
type lane struct {
	f       *Forward
	bell    *rawsock.Bell
	index   int          // among the lanes
	seed    maphash.Seed // random: clients cannot choose the hash
	closing atomic.Bool
	senders sync.WaitGroup // of the first queries; begun while the lane is locked, and not closed

	// The watcher's.
	poll      poll
	out       dnsserver.ResponseBatch
	pace      rawsock.Pace
	now       time.Time // when the current event was received
	mails     []mail
	lingering int // open tries of landed flights

	mu       sync.Mutex      // guards what follows
	asked    [chains]*flight // by hash of the key, linked by twin
	order    line            // of those asked
	timers   timers
	slots    []*try    // that have a socket; nil: free
	free     []int     // slots
	idle     [2][]*try // by family, with a socket that belongs to no question
	spare    []*flight
	mail     []mail
	ids      exchange.IDs
	isInside bool // the watcher polls in the kernel and needs no deadline
	closed   bool
}

// A mail reports an event from another goroutine to the watcher.
type mail struct {
	// t ended with msg, over TCP or TLS, or with err.
	t        *try
	msg      *dns.Msg
	err      error
	isStream bool

	fl     *flight // needs more than its first query or, if isLeft, has lost all waiters
	isLeft bool

	dark *route // all its servers are silent
}

// poll holds the epoll instance and the buffers of the watcher.
type poll struct {
	epoll  int
	wake   *os.File // eventfd(2): there is mail
	wakeFD int
	events [64]unix.EpollEvent
	tries  [64]*try // owners of the events; nil for a late event
	buffer []byte
}

// post sends mail to the watcher.
func (n *lane) post(m mail) {
	n.mu.Lock()
	n.postLocked(m)
	n.mu.Unlock()
	n.wake()
}

// postLocked is post for callers that hold the lock. They must call wake after unlocking.
func (n *lane) postLocked(m mail) {
	if m.t != nil {
		m.t.holds.Add(1)
	}
	n.mail = append(n.mail, m)
}

func (n *lane) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1) // writes add up, and block when the counter overflows
	_, _ = n.poll.wake.Write(one[:])         // fails after the lane has ended
}

func (n *lane) wakeLocked() {
	if !n.isInside {
		n.bell.SetDeadline(n.timers.first())
	}
}

// A flight is a question that is being asked, for all its waiters. Identical questions are asked once: N of them
// would multiply the chances of an attacker who forges responses (CVE-2020-25686 DNSpooq, CVE-2023-30464 CoreDNS).
//
// Any goroutine may begin a flight or join one. After that, only the watcher of its lane changes it: see life.go.
type flight struct {
	lane  *lane
	key   exchange.Key
	hash  uint64
	table *table // part of what makes a question the same: after SetRoutes no query gets what the old servers say
	route *route
	tag   uint64
	begun time.Time
	isRaw bool    // begun by a PendingQuery, so that Config.Answered also gets late answers
	check *server // the server whose presence this flight checks; nil for a client's question

	spent exchange.Spending
	refs  atomic.Int32 // held by the lane until the end, by each try, and by mail

	// Guarded by lane.mu.
	isAsked     bool // it is in the lane's table, and has room of flights
	waiting     []*dnsserver.PendingQuery
	guests      []*guest
	joined      int // how many have waited
	hasComeBack bool
	hasStale    bool // the Handler may have a stale answer for those in waiting
	releaseAt   time.Time
	twin        *flight // the next in the same chain
	links       [2]link
	due         time.Time // when the watcher looks at it
	place       int       // among the timers, from 1; 0: no timer

	// The watcher's, once the flight has begun.
	tries     []*try  // that are open
	first     *server // of the try that was begun with the flight, or nil
	round     *round  // nil: only the first try was begun
	turnAt    time.Time
	silentAt  time.Time
	isHurried bool // the current attempt got a second wait, as no hedge was left
	hedgedAt  int  // attempts up to this one, from 1, were overtaken by a hedge; 0: no hedge
	hasLanded bool
	hasFailed bool // no response came before it landed
	isLeft    bool // all waiters left early, so no try stays open
	isCleared bool // all tries are closed
}

// A guest is a goroutine that waits for a flight in ServeDNS.
type guest struct {
	client netip.Addr
	fl     *flight // guarded by lane.mu
	done   chan struct{}

	// Constant once done is closed.
	msg  *dns.Msg // the guest's own
	from *server
	err  error
}

// chains are a power of two, and more than there are usually questions in flight.
const chains = 1 << 10

// A link is a flight's place in a line.
type link struct{ older, newer *flight }

// A line is a list of flights in the order in which they began.
type line struct{ oldest, newest *flight }

func (l *line) add(fl *flight, which int) {
	fl.links[which] = link{older: l.newest}
	if l.newest != nil {
		l.newest.links[which].newer = fl
	} else {
		l.oldest = fl
	}
	l.newest = fl
}

func (l *line) remove(fl *flight, which int) {
	at := fl.links[which]
	if at.older != nil {
		at.older.links[which].newer = at.newer
	} else {
		l.oldest = at.newer
	}
	if at.newer != nil {
		at.newer.links[which].older = at.older
	} else {
		l.newest = at.older
	}
	fl.links[which] = link{}
}

// A try is one query to one server, and the wait for its response.
type try struct {
	attempt
	fl     *flight // guarded by lane.mu; nil for an idle socket
	query  []byte  // as sent; over TCP and TLS with another ID
	as     exchange.Form
	begun  time.Time
	socket socket // over UDP

	conn *exchange.Stream // that of the server's upgrade, which the query goes over; nil: it goes another way
	stop func()           // ends it over TCP or TLS; nil: it goes over UDP

	isGuarded bool // the query has more to it than port and ID

	holds atomic.Int32 // of the sender, of the watcher until it closes the try, and of mail

	// The watcher's.
	strays      int  // messages that were not a valid response
	isSpoilt    bool // the round knows of the first stray
	isUnread    bool // a malformed response has come
	isDoubted   bool // a response failed the cookie or case check
	isJudged    bool // counted in the lateness of its server
	isOverdue   bool // counted as a failure of its server
	isLingering bool
	isClosed    bool
}

// socket is a UDP socket, used for one query at a time. It is connected, so that the kernel drops packets from other sources
// (CVE-2020-25684, DNSpooq). Its port is a random one of net.ipv4.ip_local_port_range, which adds 14 bits to the ID (RFC 5452
// section 9.2). CoreDNS keeps its sockets, and used 8 ports for 4000 queries.
//
// Connecting a socket again gives it another random port, at a quarter of the cost of a new socket. The kernel releases a port that
// was not chosen by bind(2) when the socket is connected to AF_UNSPEC.
type socket struct {
	fd       int // -1: not open
	slot     int // of the lane; -1: no slot
	is4      bool
	isBound  bool // bound to a port, source or interface; not reused
	isFaulty bool
}
