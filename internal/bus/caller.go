package bus

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
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

// caller asks the bus, and the kernel, who a unique name is. One that has gone away is not Known.
func (l *link) caller(ctx context.Context, name string) Caller {
	if c, ok := l.callers[name]; ok {
		return c
	}
	ctx, cancel := context.WithTimeout(ctx, callerTimeout)
	defer cancel()
	c := Caller{Name: name}
	var credentials map[string]dbus.Variant
	err := l.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.GetConnectionCredentials", 0, name).Store(&credentials)
	if err != nil {
		return c
	}
	uid, hasUID := credentials["UnixUserID"].Value().(uint32)
	if c.PID, _ = credentials["ProcessID"].Value().(uint32); !hasUID || c.PID == 0 {
		return c
	}
	c.UID, c.Known = uid, true
	if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.PID)); err == nil {
		c.Comm = dnsmasqconf.Printable(strings.TrimSuffix(string(comm), "\n"))
	}
	c.Unit = l.unitOf(ctx, c.PID)
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

// mayChange reports whether a caller may change something: root and our own user, as the policy in packaging/dbus says too.
// Another policy, such as dnsmasq's own, may let others through to the name. Of a caller that did not wait for its reply
// nobody can tell who it was: the bus let it through.
func (c Caller) mayChange() bool {
	return !c.Known || c.UID == 0 || int(c.UID) == os.Geteuid()
}
