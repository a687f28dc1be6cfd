package dbusapi

import (
	"context"
	"slices"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/sys/dbusconn"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// connection makes one connection and stays on it until it ends, which is always with an error: errBusGone when it had been
// of use. All that goes out and in belongs to its goroutine, so that calls are answered in the order in which they came.
func (s *Service) connection(ctx context.Context, names []string) error {
	setup, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	q := &queue{calls: make(chan *dbus.Message, maxCalls)}
	conn, err := dbusconn.Dial(setup, dbusconn.Config{Address: s.config.Address, Options: []dbus.ConnOption{
		dbus.WithIncomingInterceptor(q.take),
		dbus.WithSignalHandler(dbus.NewSequentialSignalHandler()),
	}})
	if err != nil {
		return err
	}
	defer conn.Close()
	q.conn.Store(conn)
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	l := &link{Service: s, conn: conn, arrivals: &q.arrivals}
	// Before the names, so that nobody calls who arrived unseen. A bus that refuses is asked about callers when they call.
	err = conn.AddMatchSignalContext(setup, dbus.WithMatchSender(busName), dbus.WithMatchInterface(busName),
		dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(1, ""))
	if err != nil && !isRemote(err) {
		return err
	}
	for _, name := range names {
		if err := l.request(setup, name); err != nil {
			return err
		}
	}
	cancel()
	return l.run(ctx, q.calls, signals)
}

// A link is a Service on one connection. It belongs to one goroutine.
type link struct {
	*Service
	conn       *dbus.Conn
	arrivals   *arrivals
	callers    map[string]Caller       // by unique name, which no other connection gets while the bus lives
	announced  map[string]dbus.Variant // what listeners were told last; nil: nothing yet
	complained time.Time               // the last line of complain; zero: none yet
	unlogged   int                     // calls since that complain did not log
}

func (l *link) run(ctx context.Context, calls <-chan *dbus.Message, signals <-chan *dbus.Signal) error {
	again := time.NewTicker(askAgain)
	defer again.Stop()
	gathered := time.NewTimer(0)
	defer gathered.Stop()
	gathering := true // the first announcement is what all later ones differ from
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case call := <-calls:
			l.answer(ctx, call)
		case signal, ok := <-signals:
			if !ok {
				return errBusGone
			}
			l.heed(signal)
		case <-again.C:
			if err := l.requestMissing(ctx); err != nil {
				return err
			}
		case <-l.changed:
			if !gathering {
				gathering = true
				gathered.Reset(settle)
			}
		case <-gathered.C:
			gathering = false
			l.announce()
		}
	}
}

// Replies of RequestName (D-Bus Specification, "org.freedesktop.DBus.RequestName").
const (
	primaryOwner = 1
	inQueue      = 2
	alreadyOwner = 4
)

// request asks for a name, and waits in the queue behind who has it. Only a bus that does not answer is an error: one that
// refuses, as it has no policy for us, may be told better.
func (l *link) request(ctx context.Context, name string) error {
	var reply uint32
	err := l.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.RequestName", 0, name, uint32(0)).Store(&reply)
	state := control.BusName{Name: name, Owned: reply == primaryOwner || reply == alreadyOwner}
	switch {
	case err != nil && isRemote(err):
		state.Why = dnsmasqconf.Printable(err.Error())
	case err != nil:
		return err
	case reply == inQueue:
		state.Why = "waiting for its owner " + l.owner(ctx, name)
	}
	if before := l.stateOf(name); !state.Owned && before != state {
		l.config.Log.Warn("D-Bus name is not ours", "name", name, "why", state.Why, journal.BusAway.Attr())
	}
	l.named(state)
	l.Changed()
	return nil
}

func (l *link) requestMissing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	names, _ := l.Names()
	for _, name := range names {
		if name.Owned {
			continue
		}
		if err := l.request(ctx, name.Name); err != nil {
			return err
		}
	}
	return nil
}

// owner says who owns a name, for people.
func (l *link) owner(ctx context.Context, name string) string {
	var unique string
	if err := l.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.GetNameOwner", 0, name).Store(&unique); err != nil {
		return "who is not known"
	}
	return l.caller(ctx, unique).who()
}

// heed hears which names are ours. The bus says so in NameAcquired also for those that it gave us in its reply.
func (l *link) heed(signal *dbus.Signal) {
	if signal.Sender != busName || len(signal.Body) != 1 {
		return
	}
	name, _ := signal.Body[0].(string)
	if l.stateOf(name).Name == "" {
		return // our unique one
	}
	switch signal.Name {
	case "org.freedesktop.DBus.NameAcquired":
		l.named(control.BusName{Name: name, Owned: true})
		l.config.Log.Info("D-Bus name is ours", "name", name, journal.BusName.Attr())
		if name == DnsmasqName {
			l.up()
		}
		l.Changed()
	case "org.freedesktop.DBus.NameLost":
		l.named(control.BusName{Name: name, Why: "lost"})
		l.Changed()
	}
}

// up has those who set servers set them again: OpenShift's SDN waits for this signal, of which dnsmasq's introspection says
// nothing.
func (l *link) up() {
	if err := l.conn.Emit(dnsmasqPath, DnsmasqName+".Up"); err != nil {
		l.config.Log.Warn("D-Bus signal", "signal", "Up", "error", err) // the connection has ended, and will be made again
	}
}

// stateOf is the zero BusName for one that is not wanted.
func (s *Service) stateOf(name string) control.BusName {
	names, _ := s.Names()
	if i := slices.IndexFunc(names, func(n control.BusName) bool { return n.Name == name }); i >= 0 {
		return names[i]
	}
	return control.BusName{}
}
