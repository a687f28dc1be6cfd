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

// connection connects to the bus and serves until the connection ends. It always returns an error:
// errBusGone if the setup had succeeded. One goroutine handles all traffic, so calls are answered
// in the order of their arrival.
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
	// Subscribe before requesting the names, so that every new client is known before it can call.
	// If the bus refuses the subscription, clients are identified when they call.
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

// link is a Service on one connection. It belongs to one goroutine.
type link struct {
	*Service
	conn       *dbus.Conn
	arrivals   *arrivals
	callers    map[string]Caller       // by unique name, which a bus never reuses
	announced  map[string]dbus.Variant // last announced values; nil if there are none yet
	complained time.Time               // time of the last line of complain; zero if there is none
	unlogged   int                     // calls since then that complain did not log
}

func (l *link) run(ctx context.Context, calls <-chan *dbus.Message, signals <-chan *dbus.Signal) error {
	again := time.NewTicker(askAgain)
	defer again.Stop()
	gathered := time.NewTimer(0)
	defer gathered.Stop()
	gathering := true // the first announcement is the baseline for later ones
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
			l.updateNames(signal)
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

// Results of RequestName (D-Bus Specification, "org.freedesktop.DBus.RequestName").
const (
	primaryOwner = 1
	inQueue      = 2
	alreadyOwner = 4
)

// request requests a name and waits in the queue behind its owner. It returns an error only if the
// bus does not answer. If the bus refuses because it has no policy for us, a later request may
// succeed.
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
		l.config.Log.Warn("D-Bus name not acquired", "name", name, "why", state.Why, journal.BusAway.Attr())
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

// owner describes the owner of a name for display.
func (l *link) owner(ctx context.Context, name string) string {
	var unique string
	if err := l.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.GetNameOwner", 0, name).Store(&unique); err != nil {
		return "(unknown)"
	}
	return l.caller(ctx, unique).who()
}

// updateNames updates which names are ours. The bus also sends NameAcquired for names that it
// granted in its reply.
func (l *link) updateNames(signal *dbus.Signal) {
	if signal.Sender != busName || len(signal.Body) != 1 {
		return
	}
	name, _ := signal.Body[0].(string)
	if l.stateOf(name).Name == "" {
		return // our unique name
	}
	switch signal.Name {
	case "org.freedesktop.DBus.NameAcquired":
		l.named(control.BusName{Name: name, Owned: true})
		l.config.Log.Info("acquired D-Bus name", "name", name, journal.BusName.Attr())
		if name == DnsmasqName {
			l.up()
		}
		l.Changed()
	case "org.freedesktop.DBus.NameLost":
		l.named(control.BusName{Name: name, Why: "lost"})
		l.Changed()
	}
}

// up makes other programs set their servers again. OpenShift's SDN waits for this signal, which
// dnsmasq's introspection does not mention.
func (l *link) up() {
	if err := l.conn.Emit(dnsmasqPath, DnsmasqName+".Up"); err != nil {
		l.config.Log.Warn("D-Bus signal", "signal", "Up", "error", err) // the connection has ended and will be renewed
	}
}

// stateOf returns the zero BusName for a name that we do not request.
func (s *Service) stateOf(name string) control.BusName {
	names, _ := s.Names()
	if i := slices.IndexFunc(names, func(n control.BusName) bool { return n.Name == name }); i >= 0 {
		return names[i]
	}
	return control.BusName{}
}
