package dbusapi

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// dbusSend runs dbus-send as a user, without --print-reply, so that it exits at once.
func (w *world) dbusSend(user, kind string, args ...string) {
	w.t.Helper()
	lab.NeedPrograms(w.t, "dbus-send", "setpriv")
	argv := append([]string{
		"--reuid=" + user, "--regid=nogroup", "--clear-groups", "--",
		"dbus-send", "--bus=" + w.bus.Address(), "--type=" + kind, "--dest=" + DnsmasqName, dnsmasqPath,
	}, args...)
	if out, err := exec.Command("setpriv", argv...).CombinedOutput(); err != nil {
		w.t.Fatalf("%q: %v\n%s", argv, err, out)
	}
}

// settled returns after messages that other senders sent earlier have been handled. The bus reads
// all pending messages of all its sockets between two calls.
func (w *world) settled(conn *dbus.Conn) {
	w.t.Helper()
	for range 2 {
		if err := dnsmasqOf(conn).Call(DnsmasqName+".GetVersion", 0).Err; err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestHangUp: a user admitted by dnsmasq's own policy could change all servers by disconnecting
// before it was identified.
func TestHangUp(t *testing.T) {
	if os.Geteuid() != 0 {
		lab.Skip(t, "needs root, to call as another user")
	}
	for _, policies := range [][]string{{policy, "testdata/dnsmasq.conf"}, {"testdata/dnsmasq.conf", policy}} {
		w := newWorld(t, policies...)
		w.bus.Start()
		w.run(DnsmasqName, ManagerName)
		w.awaitNames()
		conn := w.dial()
		for i := range 30 {
			w.dbusSend("nobody", []string{"method_call", "signal"}[i%2], "uk.org.thekelleys.SetDomainServers", "array:string:203.0.113.66")
		}
		w.settled(conn)
		if sets := w.wasSet(); len(sets) > 0 {
			t.Errorf("got servers %q", sets)
		}
		if log := w.log.String(); !strings.Contains(log, `msg="D-Bus call failed" member=SetDomainServers sender=:`) {
			t.Errorf("got log\n%s", log)
		}
	}
}

// TestDBusSend: root's dbus-send without --print-reply sends a signal unless it is told to call,
// and exits. dnsmasq obeys both kinds. Signals were once ignored here. Sometimes dbus-send exits
// before the bus is asked about it, and is then refused.
func TestDBusSend(t *testing.T) {
	if os.Geteuid() != 0 {
		lab.Skip(t, "needs root, whom the policy lets through")
	}
	w := newWorld(t, policy, "testdata/dnsmasq.conf")
	w.bus.Start()
	w.run(DnsmasqName, ManagerName)
	w.awaitNames()
	conn := w.dial()
	for _, kind := range []string{"method_call", "signal"} {
		obeyed := false
		for i := 0; i < 100 && !obeyed; i++ {
			want := fmt.Sprintf("/%s.example/10.0.0.%d", strings.TrimSuffix(kind, "_call"), i+1)
			w.dbusSend("root", kind, "uk.org.thekelleys.SetDomainServers", "array:string:"+want)
			w.settled(conn)
			obeyed = texts(w.service.config.State().Rules) == want
		}
		if by := w.service.config.State().RulesBy; !obeyed || !by.Known || by.UID != 0 || by.Method != "SetDomainServers" {
			t.Errorf("%s: obeyed %v, by %+v; log:\n%s", kind, obeyed, by, w.log.String())
		}
	}
}

// TestGone proves that a sender is refused if it left before the bus could identify it.
func TestGone(t *testing.T) {
	w := start(t)
	gone := w.dial()
	name := gone.Names()[0]
	waits, release := make(chan struct{}, 1), make(chan struct{})
	w.mu.Lock()
	w.onSet = func() error { waits <- struct{}{}; <-release; return nil }
	w.mu.Unlock()
	first := w.dial()
	done := dnsmasqOf(first).Go(DnsmasqName+".SetDomainServers", 0, nil, []string{"10.0.0.1"})
	<-waits
	for range maxCallers { // more arrivals than are cached
		conn := w.dial()
		conn.Close()
	}
	dnsmasqOf(gone).Go(DnsmasqName+".SetDomainServers", dbus.FlagNoReplyExpected, nil, []string{"10.0.0.66"})
	gone.Close()
	w.await("its end", func() bool {
		var is bool
		err := first.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, name).Store(&is)
		return err == nil && !is
	})
	close(release)
	if call := <-done.Done; call.Err != nil {
		t.Error(call.Err)
	}
	w.settled(first)
	if got := strings.Join(w.wasSet(), ", "); got != "10.0.0.1" {
		t.Errorf("got servers %s", got)
	}
	if log := w.log.String(); !strings.Contains(log, "sender="+name+" ") || !strings.Contains(log, "unknown caller of SetDomainServers") {
		t.Errorf("got log\n%s", log)
	}
}

// TestSignals proves that a signal is obeyed only if it is addressed to us alone and its sender may
// change something. It is never answered.
func TestSignals(t *testing.T) {
	w := start(t)
	conn := w.dial()
	replies := 0
	sender, err := dbus.Connect(w.bus.Address(), dbus.WithIncomingInterceptor(func(m *dbus.Message) {
		if m.Type == dbus.TypeMethodReply || m.Type == dbus.TypeError {
			replies++
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	before := replies
	for _, row := range []struct {
		name        string
		destination string // empty for a broadcast
		path        dbus.ObjectPath
		member      string
		obeyed      bool
	}{
		{"for dnsmasq's name", DnsmasqName, dnsmasqPath, "SetDomainServers", true},
		{"for our unique name", ownerOf(t, conn, DnsmasqName), dnsmasqPath, "SetDomainServers", true},
		{"for all listeners", "", dnsmasqPath, "SetDomainServers", false},
		{"for another", conn.Names()[0], dnsmasqPath, "SetDomainServers", false},
		{"of another path", DnsmasqName, "/else", "SetDomainServers", false},
		{"of an unknown member", DnsmasqName, dnsmasqPath, "SetDomainServer", false},
		{"of the manager", ManagerName, managerPath, "SetDomainServers", false},
	} {
		already := len(w.wasSet())
		text := fmt.Sprintf("10.3.%d.1", already)
		message := &dbus.Message{Type: dbus.TypeSignal, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath: dbus.MakeVariant(row.path), dbus.FieldInterface: dbus.MakeVariant("uk.org.thekelleys"),
			dbus.FieldMember: dbus.MakeVariant(row.member), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf([]string{})),
		}, Body: []any{[]string{text}}}
		if row.destination != "" {
			message.Headers[dbus.FieldDestination] = dbus.MakeVariant(row.destination)
		}
		sender.Send(message, nil)
		if err := sender.BusObject().Call("org.freedesktop.DBus.Peer.Ping", 0).Err; err != nil { // the bus has read the signal
			t.Fatal(err)
		}
		before++
		w.settled(conn)
		if obeyed := len(w.wasSet()) > already; obeyed != row.obeyed {
			t.Errorf("%s: obeyed %v", row.name, obeyed)
		}
		if replies != before {
			t.Errorf("%s: answered", row.name)
		}
	}
}

func ownerOf(t *testing.T, conn *dbus.Conn, name string) (unique string) {
	t.Helper()
	if err := conn.BusObject().Call("org.freedesktop.DBus.GetNameOwner", 0, name).Store(&unique); err != nil {
		t.Fatal(err)
	}
	return unique
}
