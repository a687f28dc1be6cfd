package nm

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gonm "github.com/Wifx/gonetworkmanager/v3"
	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// A watch is a watcher under test.
type watch struct {
	t       *testing.T
	reasons chan string
	log     *lab.Text
	end     func()
}

// startWatch runs a watcher that retries at once. The end of the test stops it and waits for it.
func startWatch(t *testing.T) *watch {
	t.Helper()
	return startPatientWatch(t, 200*time.Millisecond)
}

// startPatientWatch is startWatch with a setup timeout.
func startPatientWatch(t *testing.T, setupTimeout time.Duration) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{t: t, reasons: make(chan string, 100), log: &lab.Text{}}
	done := make(chan error, 1)
	w.end = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Watch returned %v", err)
			}
		case <-time.After(patience):
			t.Error("Watch did not end")
		}
	})
	t.Cleanup(w.end)
	go func() {
		done <- watcher{
			log:          slog.New(slog.NewTextHandler(w.log, nil)),
			notify:       func(reason string) { w.reasons <- reason },
			setupTimeout: setupTimeout, firstPause: time.Millisecond, lastPause: 10 * time.Millisecond,
		}.run(ctx)
	}()
	return w
}

func (w *watch) want(reasons ...string) {
	w.t.Helper()
	for _, want := range reasons {
		select {
		case got := <-w.reasons:
			if got != want {
				w.t.Fatalf("notified of %q, want %q\n%s", got, want, w.log)
			}
		case <-time.After(patience):
			w.t.Fatalf("not notified of %q\n%s", want, w.log)
		}
	}
}

func TestWatch(t *testing.T) {
	t.Run("changes", func(t *testing.T) {
		startBus(t)
		s := startTestService(t, simpleHost())
		w := startWatch(t)
		w.want(ReasonConnected)
		for range 3 {
			if err := s.changed(); err != nil {
				t.Fatal(err)
			}
		}
		w.want(ReasonDNSChanged, ReasonDNSChanged, ReasonDNSChanged)
	})
	t.Run("NetworkManager restarts", func(t *testing.T) {
		startBus(t)
		s := startTestService(t, simpleHost())
		w := startWatch(t)
		w.want(ReasonConnected)
		s.stop()
		w.want(ReasonStopped)
		s = startTestService(t, simpleHost())
		w.want(ReasonStarted)
		if err := s.changed(); err != nil { // with its new unique name
			t.Fatal(err)
		}
		w.want(ReasonDNSChanged)
	})
	t.Run("NetworkManager starts later", func(t *testing.T) {
		startBus(t)
		w := startWatch(t)
		w.want(ReasonConnected)
		startTestService(t, simpleHost())
		w.want(ReasonStarted)
		if log := w.log.String(); !strings.Contains(log, "running=false") {
			t.Errorf("got log:\n%s", log)
		}
	})
	t.Run("the bus restarts", func(t *testing.T) {
		bus := startBus(t)
		w := startWatch(t)
		w.want(ReasonConnected)
		bus.Kill()
		bus.Start()
		w.want(ReasonConnected)
		startTestService(t, simpleHost())
		w.want(ReasonStarted)
	})
	t.Run("the bus starts later", func(t *testing.T) {
		bus := newBus(t)
		w := startWatch(t)
		bus.Start()
		w.want(ReasonConnected)
	})
	t.Run("the bus hangs at first", func(t *testing.T) {
		bus := startBus(t)
		lab.SendSignal(t, bus.Process(), syscall.SIGSTOP)
		w := startWatch(t)
		for !strings.Contains(w.log.String(), "not watching") {
			time.Sleep(time.Millisecond) // until an attempt has missed its deadline
		}
		lab.SendSignal(t, bus.Process(), syscall.SIGCONT)
		w.want(ReasonConnected)
	})
}

// TestWatchOfSlowBus: one missed deadline was logged as if NetworkManager was no longer watched.
// Only the third one in a row concerns an admin.
func TestWatchOfSlowBus(t *testing.T) {
	for _, row := range []struct {
		misses int
		logged string
	}{
		{2, ""},
		{3, "context deadline exceeded; no answer so far"},
	} {
		t.Run(strconv.Itoa(row.misses), func(t *testing.T) {
			listener, err := net.Listen("unix", newBus(t).Dir()+"/bus")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			w := startPatientWatch(t, time.Second) // enough even for a busy machine
			for range row.misses {                 // hold each connection until the watcher gives up and dials again
				conn, err := listener.Accept()
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, conn)
				conn.Close()
			}
			conn, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if log := w.log.String(); strings.Contains(log, "not watching") != (row.logged != "") || !strings.Contains(log, row.logged) {
				t.Errorf("got log:\n%s", log)
			}
		})
	}
}

// TestWatchEnds: Watch returns when its context ends, whatever it is doing. goleak detects leaked
// goroutines.
func TestWatchEnds(t *testing.T) {
	t.Run("while connected", func(t *testing.T) {
		startBus(t)
		w := startWatch(t)
		w.want(ReasonConnected)
		w.end()
	})
	t.Run("while the bus hangs", func(t *testing.T) {
		lab.SendSignal(t, startBus(t).Process(), syscall.SIGSTOP)
		startWatch(t).end()
	})
	t.Run("while pausing", func(t *testing.T) {
		newBus(t)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		if err := Watch(ctx, slog.New(slog.DiscardHandler), func(string) { t.Error("notified") }); err != nil {
			t.Error(err)
		}
	})
}

// TestWatchHeedsNetworkManagerOnly: match rules do not stop a signal that another process on the
// bus sends directly to us.
func TestWatchHeedsNetworkManagerOnly(t *testing.T) {
	startBus(t)
	s := startTestService(t, simpleHost())
	w := startWatch(t)
	w.want(ReasonConnected)

	stranger, err := dbus.ConnectSystemBus()
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	var names []string
	if err := stranger.BusObject().Call("org.freedesktop.DBus.ListNames", 0).Store(&names); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for _, name := range names {
		if strings.HasPrefix(name, ":") {
			sent++
			sendTo(t, stranger, name, "org.freedesktop.DBus.Properties", "PropertiesChanged",
				gonm.DnsManagerInterface, entry{}, []string{})
			sendTo(t, stranger, name, "org.freedesktop.DBus", "NameOwnerChanged",
				gonm.NetworkManagerInterface, ":1.0", "")
		}
	}
	if sent < 3 { // the service, the watcher and the foreign process
		t.Fatalf("only %d connections on the bus", sent)
	}
	// Once the bus answers a later call, it has forwarded the signals.
	if err := stranger.BusObject().Call("org.freedesktop.DBus.GetId", 0).Err; err != nil {
		t.Fatal(err)
	}
	if err := s.changed(); err != nil {
		t.Fatal(err)
	}
	w.want(ReasonDNSChanged)
	s.stop()
	w.want(ReasonStopped)
}

// sendTo sends a signal to one connection. godbus's Emit cannot do that.
func sendTo(t *testing.T, conn *dbus.Conn, to, iface, name string, body ...any) {
	t.Helper()
	message := &dbus.Message{
		Type: dbus.TypeSignal,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldDestination: dbus.MakeVariant(to),
			dbus.FieldPath:        dbus.MakeVariant(dbus.ObjectPath(gonm.DnsManagerObjectPath)),
			dbus.FieldInterface:   dbus.MakeVariant(iface),
			dbus.FieldMember:      dbus.MakeVariant(name),
			dbus.FieldSignature:   dbus.MakeVariant(dbus.SignatureOf(body...)),
		},
		Body: body,
	}
	if call := conn.Send(message, nil); call.Err != nil {
		t.Fatal(call.Err)
	}
}

// TestWatchLogsStateChanges: a missing bus is logged once, not at each attempt.
func TestWatchLogsStateChanges(t *testing.T) {
	dir := newBus(t).Dir()
	listener, err := net.Listen("unix", dir+"/bus")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	w := startWatch(t)
	for range 5 { // attempts, each cut off during authentication
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		bufio.NewReader(conn).ReadString('\n')
		conn.Close()
	}
	w.end()
	if got := strings.Count(w.log.String(), "\n"); got != 1 {
		t.Errorf("%d log lines:\n%s", got, w.log)
	}
}

func TestMeaning(t *testing.T) {
	ownerChanged := func(sender string, body ...any) *dbus.Signal {
		return &dbus.Signal{Sender: sender, Name: "org.freedesktop.DBus.NameOwnerChanged", Path: "/org/freedesktop/DBus", Body: body}
	}
	propertiesChanged := func(sender string, path dbus.ObjectPath) *dbus.Signal {
		return &dbus.Signal{Sender: sender, Name: "org.freedesktop.DBus.Properties.PropertiesChanged", Path: path}
	}
	const bus, name = "org.freedesktop.DBus", gonm.NetworkManagerInterface
	tests := []struct {
		name          string
		signal        *dbus.Signal
		owner         string
		reason, after string
	}{
		{"started", ownerChanged(bus, name, "", ":1.7"), "", ReasonStarted, ":1.7"},
		{"stopped", ownerChanged(bus, name, ":1.7", ""), ":1.7", ReasonStopped, ""},
		{"replaced", ownerChanged(bus, name, ":1.7", ":1.8"), ":1.7", ReasonStarted, ":1.8"},
		{"another name", ownerChanged(bus, "org.example", "", ":1.9"), ":1.7", "", ":1.7"},
		{"not from the bus", ownerChanged(":1.9", name, ":1.7", ""), ":1.7", "", ":1.7"},
		{"too short", ownerChanged(bus, name), ":1.7", "", ":1.7"},
		{"wrong types", ownerChanged(bus, name, uint32(1), []string{}), ":1.7", "", ":1.7"},
		{"changed", propertiesChanged(":1.7", gonm.DnsManagerObjectPath), ":1.7", ReasonDNSChanged, ":1.7"},
		{"changed elsewhere", propertiesChanged(":1.7", base), ":1.7", "", ":1.7"},
		{"changed by another sender", propertiesChanged(":1.9", gonm.DnsManagerObjectPath), ":1.7", "", ":1.7"},
		{"not changed", propertiesChanged("", gonm.DnsManagerObjectPath), "", "", ""},
		{"something else", &dbus.Signal{Sender: bus, Name: "org.freedesktop.DBus.NameAcquired"}, ":1.7", "", ":1.7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reason, after := meaning(tt.signal, tt.owner)
			if reason != tt.reason || after != tt.after {
				t.Errorf("got %q, %q; want %q, %q", reason, after, tt.reason, tt.after)
			}
		})
	}
}
