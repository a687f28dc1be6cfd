package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AdminGroup is the group whose members have the same rights on the socket as root. It owns no
// files.
const AdminGroup = "node-dns-admin"

// level is an access level.
type level uint8

const (
	anyone level = iota // what any client of this node can find out anyway, and what the metrics show to any process
	admin               // changes, queries of other clients, and whatever uses the node's credentials
)

var errNotAdmin = errors.New("only root and members of the group " + AdminGroup + " may do this")

// levelOf maps a caller to its access level: root, the daemon's own user and members of AdminGroup
// are admins. adminGroup returns the group's ID, or false if the group does not exist.
func levelOf(p peer, adminGroup func() (int, bool)) level {
	if p.UID == 0 || p.UID == os.Geteuid() {
		return admin
	}
	if group, ok := adminGroup(); ok && p.isIn(group) {
		return admin
	}
	return anyone
}

// adminGroup looks up AdminGroup in /etc/group, where systemd-sysusers(8) creates it, possibly
// while the daemon runs. GID 0 does not count.
func adminGroup() (int, bool) {
	group, err := user.LookupGroup(AdminGroup)
	if err != nil {
		return 0, false
	}
	id, err := strconv.Atoi(group.Gid)
	return id, err == nil && id > 0
}

// groupAge is how long the group's ID is cached. Reading /etc/group for each connection let a user
// who floods the socket consume half a CPU.
const groupAge = time.Second

// remembered returns lookUp with its result cached for groupAge. The returned function is not safe
// for concurrent use.
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

// maxClients limits the open connections, including those that wait for a slot. Guests leave at
// least adminRoom of them for admins. Package policy keeps files for them (filesAside).
const (
	adminRoom  = 8
	maxClients = adminRoom + maxGuests + maxWaiting
)

// callerListener accepts connections and identifies their callers. It closes a connection whose
// caller it cannot identify, and a guest's connection above a limit.
type callerListener struct {
	net.Listener
	adminGroup func() (int, bool)
	guests     *guestSlots
}

// Accept implements net.Listener.
func (e *callerListener) Accept() (net.Conn, error) {
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
		v := &callerConn{Conn: conn, guests: e.guests, caller: caller{user: p.UID, level: levelOf(p, e.adminGroup)}}
		if v.caller.level == anyone {
			if v.slot = e.guests.enter(p.UID); v.slot == nil {
				conn.Close()
				continue
			}
		}
		return v, nil
	}
}

// callerConn is the connection of an identified caller.
type callerConn struct {
	net.Conn
	caller caller
	guests *guestSlots
	slot   *guestSlot // nil for an admin
	left   sync.Once
}

// Read implements net.Conn. It first waits for the connection's slot. That time does not count as
// time that the caller takes to send a request.
func (v *callerConn) Read(p []byte) (int, error) {
	if !v.slot.isGiven() {
		if err := v.slot.wait(); err != nil {
			return 0, err
		}
		if err := v.Conn.SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
			return 0, err
		}
	}
	return v.Conn.Read(p)
}

// Close implements net.Conn.
func (v *callerConn) Close() error {
	if v.slot != nil {
		v.left.Do(func() { v.guests.leave(v.slot) })
	}
	return v.Conn.Close()
}

// RemoteAddr returns the caller. net/http passes it on even if the connection is wrapped.
func (v *callerConn) RemoteAddr() net.Addr { return v.caller }

// caller identifies the client of a connection. The zero caller has level anyone.
type caller struct {
	user  int
	level level
}

// Network and String implement net.Addr.
func (caller) Network() string  { return "unix" }
func (c caller) String() string { return "uid " + strconv.Itoa(c.user) }

type callerKey struct{}

// withCaller is a ConnContext for http.Server. It stores the connection's caller in the context of
// each request.
func withCaller(ctx context.Context, conn net.Conn) context.Context {
	who, _ := conn.RemoteAddr().(caller)
	return context.WithValue(ctx, callerKey{}, who)
}

// mayAsk returns errNotAdmin if the request's caller is below the needed level.
func mayAsk(ctx context.Context, needed level) error {
	if who, _ := ctx.Value(callerKey{}).(caller); who.level < needed {
		return errNotAdmin
	}
	return nil
}

// guarded returns answer with an access check in front.
func guarded(needed level, answer http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := mayAsk(r.Context(), needed); err != nil {
			reply(w, nil, err)
			return
		}
		answer.ServeHTTP(w, r)
	})
}

// peer is the process at the other end of a unix socket. The kernel recorded its user and groups
// when it connected (unix(7), SO_PEERCRED and SO_PEERGROUPS), so no process can forge them.
type peer struct {
	PID    int // 0 if it is in another PID namespace
	UID    int
	Groups []int // primary and supplementary groups
}

// isIn reports whether the process is a member of group.
func (p peer) isIn(group int) bool { return slices.Contains(p.Groups, group) }

// maxGroups is NGROUPS_MAX from limits.h.
const maxGroups = 1 << 16

// peerOf returns the process at the other end of a connection.
func peerOf(conn syscall.Conn) (peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{}, fmt.Errorf("identifying the caller: %w", err)
	}
	var p peer
	var peerErr error
	if err := raw.Control(func(fd uintptr) { p, peerErr = peerOfSocket(int(fd)) }); err != nil || peerErr != nil {
		return peer{}, fmt.Errorf("identifying the caller: %w", errors.Join(err, peerErr))
	}
	return p, nil
}

func peerOfSocket(fd int) (peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return peer{}, os.NewSyscallError("getsockopt", err)
	}
	p := peer{PID: int(cred.Pid), UID: int(cred.Uid), Groups: []int{int(cred.Gid)}}
	groups, err := groupsOf(fd)
	for _, group := range groups {
		p.Groups = append(p.Groups, int(group))
	}
	return p, err
}

// groupsOf returns the supplementary groups. It returns none on kernels before 4.13, which cannot
// report them.
func groupsOf(fd int) ([]uint32, error) {
	for room := 64; room <= maxGroups; {
		groups := make([]uint32, room)
		octets := uint32(4 * room)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&octets)), 0)
		switch errno {
		case 0:
			return groups[:min(int(octets/4), room)], nil
		case unix.ERANGE: // there are more groups; octets holds the needed size
			room = max(int(octets/4), 2*room)
		case unix.ENOPROTOOPT:
			return nil, nil
		default:
			return nil, os.NewSyscallError("getsockopt", errno)
		}
	}
	return nil, os.NewSyscallError("getsockopt", unix.ERANGE)
}
