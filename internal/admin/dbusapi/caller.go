package dbusapi

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

const (
	// maxCallers is the number of callers cached per connection.
	maxCallers = 256
	// callerTimeout is the timeout for identifying a caller.
	callerTimeout = time.Second
)

// arrivals are requests to the bus that identify each new connection when it arrives. A sender that
// waits for no reply, such as dbus-send without --print-reply, has often disconnected when its
// message is read, and then the bus can no longer identify it. The zero value is empty.
type arrivals struct {
	mu    sync.Mutex            // guards the fields below
	asked map[string]*dbus.Call // by unique name, answered or not
	order [maxCallers]string    // ring of the names in asked; may contain names that take removed
	next  int                   // index of the oldest entry in order
}

// ask requests the identity of name without waiting for the answer.
func (a *arrivals) ask(conn *dbus.Conn, name string) {
	call := askWho(conn, name)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked == nil {
		a.asked = map[string]*dbus.Call{}
	}
	delete(a.asked, a.order[a.next])
	a.asked[name], a.order[a.next] = call, name
	a.next = (a.next + 1) % maxCallers
}

// take removes and returns the request about name, or nil if there is none.
func (a *arrivals) take(name string) *dbus.Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	call := a.asked[name]
	delete(a.asked, name)
	return call
}

func askWho(conn *dbus.Conn, name string) *dbus.Call {
	return conn.BusObject().Go("org.freedesktop.DBus.GetConnectionCredentials", 0, nil, name)
}

// caller identifies a unique name with the help of the bus and the kernel, unless the bus was
// already asked when the name arrived. A caller that cannot be identified, because it left too
// early, is not Known.
func (l *link) caller(ctx context.Context, name string) Caller {
	if c, ok := l.callers[name]; ok {
		return c
	}
	ctx, cancel := context.WithTimeout(ctx, callerTimeout)
	defer cancel()
	c := Caller{Name: name}
	call := l.arrivals.take(name)
	if call == nil {
		call = askWho(l.conn, name)
	}
	select {
	case <-call.Done:
	case <-ctx.Done():
		return c
	}
	var credentials map[string]dbus.Variant
	if call.Store(&credentials) != nil {
		return c
	}
	if c.UID, c.Known = credentials["UnixUserID"].Value().(uint32); !c.Known {
		return c
	}
	if c.PID, _ = credentials["ProcessID"].Value().(uint32); c.PID != 0 {
		if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.PID)); err == nil {
			c.Comm = dnsmasqconf.Printable(strings.TrimSuffix(string(comm), "\n"))
		}
		c.Unit = l.unitOf(ctx, c.PID)
	}
	if l.callers == nil || len(l.callers) >= maxCallers {
		l.callers = map[string]Caller{}
	}
	l.callers[name] = c
	return c
}

// unitOf asks systemd for the unit of a process. It returns "" if there is no systemd or no unit.
// The object path of a unit contains the unit's name, in which bytes that are invalid in a path are
// written as "_" and two hex digits (sd_bus_path_encode(3)).
func (l *link) unitOf(ctx context.Context, pid uint32) string {
	const systemd, units = "org.freedesktop.systemd1", "/org/freedesktop/systemd1/unit/"
	var path dbus.ObjectPath
	call := l.conn.Object(systemd, "/org/freedesktop/systemd1").CallWithContext(ctx, systemd+".Manager.GetUnitByPID", dbus.FlagNoAutoStart, pid)
	if call.Store(&path) != nil {
		return ""
	}
	name, ok := strings.CutPrefix(string(path), units)
	name, err := url.PathUnescape(strings.ReplaceAll(name, "_", "%"))
	if !ok || err != nil {
		return ""
	}
	return dnsmasqconf.Printable(name)
}

// mayCall returns an error if the caller may not change anything. Root and our own user may, as in
// the policy in packaging/dbus. Another policy, such as dnsmasq's own, may let other users reach
// the name, so a caller that is not Known is refused.
func (c Caller) mayCall(member string) error {
	switch {
	case !c.Known:
		return fault{errorAccess, "unknown caller of " + member + ": it disconnected before it was identified; with dbus-send use --print-reply"}
	case c.UID != 0 && int(c.UID) != os.Geteuid():
		return fault{errorAccess, "only root and the user of node-dns may call " + member}
	}
	return nil
}
