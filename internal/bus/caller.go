package bus

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
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
		c.Comm = printable(strings.TrimSuffix(string(comm), "\n"))
	}
	if l.callers == nil || len(l.callers) >= maxCallers {
		l.callers = map[string]Caller{}
	}
	l.callers[name] = c
	return c
}

// who is the caller without what it called.
func (c Caller) who() string {
	if !c.Known {
		return c.Name
	}
	return strings.TrimPrefix(c.String(), c.Method+" by ")
}

// mayChange reports whether a caller may change something: root and our own user, as the policy in packaging/dbus says too.
// Another policy, such as dnsmasq's own, may let others through to the name. Of a caller that did not wait for its reply
// nobody can tell who it was: the bus let it through.
func (c Caller) mayChange() bool {
	return !c.Known || c.UID == 0 || int(c.UID) == os.Geteuid()
}
