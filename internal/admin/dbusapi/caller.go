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
	// maxCallers are remembered of a connection.
	maxCallers = 256
	// callerTimeout is how long the bus may take to say who somebody is.
	callerTimeout = time.Second
)

// arrivals are questions to the bus, asked when a connection arrives: who is it? A sender that waits for no reply, as dbus-send
// without --print-reply, often has gone when its message is read, and the bus then no longer tells. The zero value has none.
type arrivals struct {
	mu    sync.Mutex            // guards what follows
	asked map[string]*dbus.Call // by unique name, answered or not
	order [maxCallers]string    // a ring of the names in asked, and of some that take removed
	next  int                   // the oldest in order
}

// ask asks who name is, without waiting for the answer.
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

// take returns the question that was asked about name, once; nil: there is none.
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

// caller asks the bus, and the kernel, who a unique name is, if that was not asked when it arrived. One that cannot be told, as
// it left before the bus was asked, is not Known.
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

// unitOf asks systemd which unit a process belongs to; "" when there is no systemd, or it does not know. The path of a unit's
// object is its name, of which bytes that may not stand in a path are "_" and their two digits (sd_bus_path_encode(3)).
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

// mayCall is the error for a caller that may not change anything: root and our own user may, as the policy in packaging/dbus says
// too. Another policy, such as dnsmasq's own, may let others through to the name, so a caller that is not Known may not.
func (c Caller) mayCall(member string) error {
	switch {
	case !c.Known:
		return fault{errorAccess, "it cannot be told who called " + member + ": the caller left before the bus was asked; with dbus-send use --print-reply"}
	case c.UID != 0 && int(c.UID) != os.Geteuid():
		return fault{errorAccess, "only root and the user of node-dns may call " + member}
	}
	return nil
}
