package nm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	gonm "github.com/Wifx/gonetworkmanager/v3"
	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

// The reasons that Watch gives.
const (
	ReasonConnected  = "connected to the system bus"
	ReasonDNSChanged = "NetworkManager's DNS configuration changed"
	ReasonStarted    = "NetworkManager started"
	ReasonStopped    = "NetworkManager stopped"
)

// Watch calls notify whenever NetworkManager's DNS configuration may have changed: on each
// connection to the system bus, when DnsManager's properties change, and when NetworkManager starts
// or stops. It detects changes without a dispatcher event, such as a renewal with other nameservers
// on 1.42, and `nmcli general reload dns-rc`.
//
// It uses its own connection. If the bus is gone, it reconnects with increasing pauses, and logs
// each change of that state. It logs a slow bus after three missed deadlines in a row. It returns
// nil when ctx ends, and not earlier.
//
// Watch calls notify from its own goroutine. notify must return at once, because signals queue up
// meanwhile. Watch may call it without a change, and several times for one change.
func Watch(ctx context.Context, log *slog.Logger, notify func(reason string)) error {
	return watcher{
		log: log, notify: notify,
		setupTimeout: 5 * time.Second, firstPause: 250 * time.Millisecond, lastPause: 5 * time.Second,
	}.run(ctx)
}

// errBusGone means that the connection of a watcher ended.
var errBusGone = errors.New("connection to the system bus ended")

type watcher struct {
	log                   *slog.Logger
	notify                func(reason string)
	setupTimeout          time.Duration // for one attempt to connect and subscribe
	firstPause, lastPause time.Duration // between attempts
}

// run is the only loop that retries.
func (w watcher) run(ctx context.Context) error {
	pause, said := w.firstPause, ""
	var misses dbusconn.Misses
	for {
		start := time.Now()
		connected, err := w.connection(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if connected {
			said, misses = "", misses.After(nil, time.Now())
		} else {
			misses = misses.After(err, time.Now())
		}
		if time.Since(start) > w.lastPause { // not a bus that drops the connection at once
			pause = w.firstPause
		}
		if problem := misses.Problem(err); problem != nil && said != problem.Error() { // log a change, not every attempt
			said = problem.Error()
			w.log.Warn("not watching NetworkManager", "error", problem)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, w.lastPause)
	}
}

// connection connects once and watches until the connection ends. It always returns an error.
// connected reports whether it reached the watching phase.
func (w watcher) connection(ctx context.Context) (connected bool, err error) {
	setup, cancel := context.WithTimeout(ctx, w.setupTimeout)
	defer cancel()
	conn, err := dbusconn.Dial(setup, dbusconn.Config{
		Options: []dbus.ConnOption{dbus.WithSignalHandler(dbus.NewSequentialSignalHandler())},
	})
	if err != nil {
		return false, err
	}
	defer conn.Close()
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	owner, err := subscribe(setup, conn)
	if err != nil {
		return false, err
	}
	cancel()
	w.log.Info("watching NetworkManager", "running", owner != "")
	w.notify(ReasonConnected)
	for {
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case signal, ok := <-signals:
			if !ok {
				return true, errBusGone
			}
			var reason string
			if reason, owner = meaning(signal, owner); reason != "" {
				w.notify(reason)
			}
		}
	}
}

// subscribe first subscribes to the signals and then asks for NetworkManager's owner name, so that
// it misses no start in between. owner is "" if NetworkManager does not run.
//
// gonetworkmanager's own Subscribe uses a match rule that matches nothing (3.2.0).
func subscribe(ctx context.Context, conn *dbus.Conn) (owner string, err error) {
	err = conn.AddMatchSignalContext(ctx,
		dbus.WithMatchSender(gonm.NetworkManagerInterface),
		dbus.WithMatchObjectPath(gonm.DnsManagerObjectPath),
		dbus.WithMatchInterface("org.freedesktop.DBus.Properties"),
		dbus.WithMatchMember("PropertiesChanged"),
		dbus.WithMatchArg(0, gonm.DnsManagerInterface))
	if err != nil {
		return "", fmt.Errorf("subscribing to DnsManager: %w", asError(ctx, err))
	}
	err = conn.AddMatchSignalContext(ctx,
		dbus.WithMatchSender("org.freedesktop.DBus"),
		dbus.WithMatchInterface("org.freedesktop.DBus"),
		dbus.WithMatchMember("NameOwnerChanged"),
		dbus.WithMatchArg(0, gonm.NetworkManagerInterface))
	if err != nil {
		return "", fmt.Errorf("subscribing to NameOwnerChanged: %w", asError(ctx, err))
	}
	call := conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.GetNameOwner", 0, gonm.NetworkManagerInterface)
	switch err := asError(ctx, call.Store(&owner)); {
	case errors.Is(err, ErrNotRunning):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("looking up NetworkManager's bus name: %w", err)
	}
	return owner, nil
}

// meaning interprets a signal and returns NetworkManager's new owner name. reason is "" if the
// signal is irrelevant. Match rules filter only broadcasts, and any process on the bus may send us
// a signal directly.
func meaning(signal *dbus.Signal, owner string) (reason, newOwner string) {
	switch signal.Name {
	case "org.freedesktop.DBus.NameOwnerChanged":
		var name, before, after string
		err := dbus.Store(signal.Body, &name, &before, &after)
		if err != nil || signal.Sender != "org.freedesktop.DBus" || name != gonm.NetworkManagerInterface {
			return "", owner
		}
		if after == "" {
			return ReasonStopped, after
		}
		return ReasonStarted, after
	case "org.freedesktop.DBus.Properties.PropertiesChanged":
		if owner != "" && signal.Sender == owner && signal.Path == gonm.DnsManagerObjectPath {
			return ReasonDNSChanged, owner
		}
	}
	return "", owner
}
