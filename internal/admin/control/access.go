package control

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// AdminGroup is the group whose members may ask over the socket what root may. It owns no file.
const AdminGroup = "node-dns-admin"

// level is what a caller may ask.
type level uint8

const (
	anyone level = iota // what a client of this node can learn anyway, or any process from the metrics
	admin               // changes, what other clients ask, and what the node's credentials are used for
)

// errNotAdmin refuses a caller.
var errNotAdmin = errors.New("only root and members of the group " + AdminGroup + " may do this")

// levelOf decides by who has connected: root, the user of the daemon, and the members of AdminGroup are admins. adminGroup
// is its number; false: there is no such group.
func levelOf(p peer, adminGroup func() (int, bool)) level {
	if p.UID == 0 || p.UID == os.Geteuid() {
		return admin
	}
	if group, ok := adminGroup(); ok && p.isIn(group) {
		return admin
	}
	return anyone
}

// adminGroup looks AdminGroup up in /etc/group, where systemd-sysusers(8) puts it: it may come while the daemon runs. Root's
// group does not count.
func adminGroup() (int, bool) {
	group, err := user.LookupGroup(AdminGroup)
	if err != nil {
		return 0, false
	}
	id, err := strconv.Atoi(group.Gid)
	return id, err == nil && id > 0
}

// groupAge is how long the group's number is believed: to read /etc/group for each connection took a user's flood of them half a CPU.
const groupAge = time.Second

// remembered returns lookUp with its result kept for groupAge. It must not be called in parallel.
func remembered(lookUp func() (int, bool)) func() (int, bool) {
	var id int
	var exists bool
	var until time.Time
	return func() (int, bool) {
		if now := time.Now(); now.After(until) {
			id, exists = lookUp()
			until = now.Add(groupAge)
		}
		return id, exists
	}
}

// Bounds of connections at a time: of all, of all who are not admins, and of each of their users. An admin finds room,
// whatever they do.
const (
	maxClients      = 16
	maxGuests       = 8
	maxGuestsOfUser = 4
)

// entrance accepts connections and knows whose they are. It closes those that it cannot tell it of, and those beyond a bound.
type entrance struct {
	net.Listener
	adminGroup func() (int, bool)

	mu     sync.Mutex  // guards what follows
	guests map[int]int // connections by user
	total  int         // of all in guests
}

// Accept implements net.Listener.
func (e *entrance) Accept() (net.Conn, error) {
	for {
		conn, err := e.Listener.Accept()
		if err != nil {
			return nil, err
		}
		known, ok := conn.(syscall.Conn)
		if !ok {
			conn.Close()
			continue
		}
		p, err := peerOf(known)
		if err != nil {
			conn.Close()
			continue
		}
		v := &visit{Conn: conn, entrance: e, caller: caller{user: p.UID, level: levelOf(p, e.adminGroup)}}
		if v.caller.level == anyone && !e.enter(p.UID) {
			conn.Close()
			continue
		}
		return v, nil
	}
}

func (e *entrance) enter(user int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.total >= maxGuests || e.guests[user] >= maxGuestsOfUser {
		return false
	}
	e.total++
	e.guests[user]++
	return true
}

func (e *entrance) leave(user int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total--
	if e.guests[user]--; e.guests[user] == 0 {
		delete(e.guests, user)
	}
}

// visit is a connection of a caller.
type visit struct {
	net.Conn
	entrance *entrance
	caller   caller
	left     sync.Once
}

// Close implements net.Conn.
func (v *visit) Close() error {
	if v.caller.level == anyone {
		v.left.Do(func() { v.entrance.leave(v.caller.user) })
	}
	return v.Conn.Close()
}

// RemoteAddr is the caller, which net/http hands on through any wrapper of the connection.
func (v *visit) RemoteAddr() net.Addr { return v.caller }

// caller is who asks; the zero caller may do no more than anyone.
type caller struct {
	user  int
	level level
}

// Network and String implement net.Addr.
func (caller) Network() string  { return "unix" }
func (c caller) String() string { return "uid " + strconv.Itoa(c.user) }

type callerKey struct{}

// withCaller is http.Server's ConnContext: the requests of a connection are its caller's.
func withCaller(ctx context.Context, conn net.Conn) context.Context {
	who, _ := conn.RemoteAddr().(caller)
	return context.WithValue(ctx, callerKey{}, who)
}

// mayAsk returns an error where the request's caller may not ask what is for this level.
func mayAsk(ctx context.Context, needed level) error {
	if who, _ := ctx.Value(callerKey{}).(caller); who.level < needed {
		return errNotAdmin
	}
	return nil
}

// guarded answers those who may ask.
func guarded(needed level, answer http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := mayAsk(r.Context(), needed); err != nil {
			reply(w, nil, err)
			return
		}
		answer.ServeHTTP(w, r)
	})
}
