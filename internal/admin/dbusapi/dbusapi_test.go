package dbusapi

import (
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/godbus/dbus/v5"
	dbusxml "github.com/godbus/dbus/v5/introspect"
	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestUp proves that the signal is sent when we get the name: at the start, after the bus restarts,
// and after another owner leaves.
func TestUp(t *testing.T) {
	t.Run("at the start", func(t *testing.T) {
		w := newWorld(t)
		w.bus.Start()
		signals := w.signals(w.dial(), "Up")
		w.run(DnsmasqName, ManagerName)
		up := w.next(signals, DnsmasqName+".Up")
		if up.Path != dnsmasqPath || len(up.Body) != 0 {
			t.Errorf("got %+v", up)
		}
	})
	t.Run("after the bus restarts", func(t *testing.T) {
		w := start(t)
		w.bus.Kill()
		w.await("the loss", func() bool { _, problem := w.service.Names(); return problem != "" })
		w.bus.Start()
		w.awaitNames()
		conn := w.dial()
		if err := dnsmasqOf(conn).Call("uk.org.thekelleys.SetDomainServers", 0, []string{"10.0.0.1"}).Err; err != nil {
			t.Error(err)
		}
	})
	t.Run("when the bus comes later", func(t *testing.T) {
		w := newWorld(t)
		w.run(DnsmasqName)
		w.await("the lack", func() bool { return strings.Contains(w.log.String(), "not on D-Bus") })
		w.bus.Start()
		w.awaitNames()
	})
	t.Run("when dnsmasq leaves", func(t *testing.T) {
		w := newWorld(t)
		w.bus.Start()
		dnsmasq := w.dial()
		if _, err := dnsmasq.RequestName(DnsmasqName, 0); err != nil {
			t.Fatal(err)
		}
		w.run(DnsmasqName, ManagerName)
		w.await("the other's name", func() bool {
			return strings.Contains(w.service.stateOf(DnsmasqName).Why, "waiting for its owner dbusapi.test (pid ")
		})
		w.await("our own name", func() bool { return w.service.stateOf(ManagerName).Owned })
		signals := w.signals(w.dial(), "Up")
		dnsmasq.Close()
		w.next(signals, DnsmasqName+".Up")
		w.awaitNames()
	})
}

// TestNoNoise proves that a missing bus, or a name owned by another process, is logged only once.
func TestNoNoise(t *testing.T) {
	w := newWorld(t)
	w.run(DnsmasqName)
	w.await("three tries", func() bool { return strings.Count(w.log.String(), "\n") > 0 })
	w.bus.Start()
	w.awaitNames()
	w.stop()
	log := w.log.String()
	starting := strings.Count(log, "connection refused") // another reason, for a moment
	if n := strings.Count(log, "not on D-Bus") - starting; n != 1 || starting > 1 {
		t.Errorf("logged %d times, and %d times while the bus started:\n%s", n, starting, log)
	}
}

// TestWholeOrNotAtAll proves that a list with an error sets nothing, and that the same holds for a
// list that the daemon refuses or that is already set.
func TestWholeOrNotAtAll(t *testing.T) {
	w := start(t)
	object := dnsmasqOf(w.dial())
	call := func(servers ...string) string {
		if err := object.Call("uk.org.thekelleys.SetDomainServers", 0, servers).Err; err != nil {
			return err.Error()
		}
		return ""
	}
	for _, step := range []struct {
		servers []string
		want    string
	}{
		{[]string{"10.0.0.1", "/a.example/10.0.0.2"}, ""},
		{[]string{"10.0.0.3", "bad"}, "Invalid IP address 'bad': not an IP address"},
		{[]string{"10.0.0.1", "/a.example/10.0.0.2"}, ""}, // same list again
		{[]string{}, ""},
		{[]string{}, ""},
	} {
		if got := call(step.servers...); got != step.want {
			t.Errorf("%q: got %q", step.servers, got)
		}
	}
	w.mu.Lock()
	w.onSet = func() error { return errors.New("not now") }
	w.mu.Unlock()
	if got := call("10.0.0.9"); got != "not now" {
		t.Errorf("got %q", got)
	}
	if got, want := w.wasSet(), []string{"10.0.0.1 /a.example/10.0.0.2", ""}; !slices.Equal(got, want) {
		t.Errorf("got servers %q, want %q", got, want)
	}
	if by := w.service.config.State().RulesBy; by.Method != "SetDomainServers" || by.PID != uint32(os.Getpid()) || by.Comm != "dbusapi.test" || by.At.IsZero() {
		t.Errorf("got caller %+v", by)
	}
}

// TestInOrder proves that the messages of one program are handled in order, even if it does not
// wait for replies, and are refused above maxCalls. A program that has left still counts if the bus
// was asked about it in time.
func TestInOrder(t *testing.T) {
	w := start(t)
	conn := w.dial()
	var want []string
	for i := range 100 {
		text := fmt.Sprintf("10.0.0.%d", i+1)
		want = append(want, text)
		dnsmasqOf(conn).Go("uk.org.thekelleys.SetDomainServers", dbus.FlagNoReplyExpected, nil, []string{text})
	}
	if err := dnsmasqOf(conn).Call(DnsmasqName+".GetVersion", 0).Err; err != nil {
		t.Fatal(err)
	}
	if got := w.wasSet(); !slices.Equal(got, want) {
		t.Errorf("got servers %q", got)
	}
	const sent, each = 360, 60 // the bus allows a program 64 pending replies
	release := make(chan struct{})
	w.mu.Lock()
	w.onSet = func() error { <-release; return nil }
	w.mu.Unlock()
	done := make(chan *dbus.Call, sent)
	for i := range sent {
		if i%each == 0 {
			conn = w.dial()
		}
		dnsmasqOf(conn).Go("uk.org.thekelleys.SetDomainServers", 0, done, []string{fmt.Sprintf("10.0.%d.%d", i/100, i%100+1)})
	}
	for i := range sent {
		call := <-done
		var remote dbus.Error
		isRefused := errors.As(call.Err, &remote) && remote.Name == errorLimits
		if shouldBe := i < sent-maxCalls-1; isRefused != shouldBe || !shouldBe && call.Err != nil {
			t.Errorf("reply %d: got %v", i, call.Err)
		}
		if i == sent-maxCalls-2 {
			close(release) // all others are pending
		}
	}
	hasty := w.dial()
	if err := dnsmasqOf(hasty).Call(DnsmasqName+".GetVersion", 0).Err; err != nil { // it has arrived, and the bus was asked about it
		t.Fatal(err)
	}
	dnsmasqOf(hasty).Go("uk.org.thekelleys.SetDomainServers", dbus.FlagNoReplyExpected, nil, []string{"10.1.1.1"})
	hasty.Close()
	w.await("the hasty one's servers", func() bool { return texts(w.service.config.State().Rules) == "10.1.1.1" })
	if by := w.service.config.State().RulesBy; by.PID != uint32(os.Getpid()) {
		t.Errorf("got caller %+v", by)
	}
}

// TestProperties proves that the types of the properties match the introspection, and that a change
// of several properties is announced in one signal.
func TestProperties(t *testing.T) {
	w := start(t)
	conn := w.dial()
	signals := w.signals(conn, "PropertiesChanged")
	// The first announcement holds the state at the start or soon after it.
	w.await("a signal", func() bool {
		w.mu.Lock()
		w.status.Ready = !w.status.Ready
		w.mu.Unlock()
		w.service.Changed()
		return len(signals) > 1 // NameAcquired is the first
	})
	w.mu.Lock()
	w.status = control.Status{
		Version: "1", Ready: true, Problems: []string{"p"}, Notes: []string{"n"},
		Listeners:  []control.Listener{{Address: "192.0.2.10:53", UDP: true, Error: "e"}},
		Routes:     []control.Route{{Domain: ".", Source: "D-Bus", Servers: []control.Server{{Address: "10.0.0.1", State: "up", Queries: 3}}}, {Domain: "a.", Local: true}},
		Overridden: []control.Loss{{Domain: ".", Source: "upstreams", Servers: []string{"10.0.0.2"}}},
		Bus:        &control.Bus{Names: []control.BusName{{Name: ManagerName, Owned: true}}, Options: []string{"filter-A"}},
	}
	w.mu.Unlock()
	w.service.Changed()
	var changed *dbus.Signal
	for len(signals) > 0 || changed == nil || len(changed.Body[1].(map[string]dbus.Variant)) < 8 { // until the signal for this status
		changed = w.next(signals, "org.freedesktop.DBus.Properties.PropertiesChanged")
	}

	call := managerOf(conn).Call("org.freedesktop.DBus.Properties.GetAll", 0, managerInterface)
	if call.Err != nil {
		t.Fatal(call.Err)
	}
	all := call.Body[0].(map[string]dbus.Variant) // Store would convert the types
	var text string
	var node dbusxml.Node
	if err := managerOf(conn).Call("org.freedesktop.DBus.Introspectable.Introspect", 0).Store(&text); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal([]byte(text), &node); err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, property := range node.Interfaces[len(node.Interfaces)-1].Properties {
		told[property.Name] = property.Type
	}
	types := map[string]string{}
	for name, value := range all {
		types[name] = value.Signature().String()
	}
	if diff := cmp.Diff(told, types); diff != "" {
		t.Errorf("types (-introspection +values):\n%s", diff)
	}
	if routes := fmt.Sprint(all["Routes"].Value()); routes != "[[. ask D-Bus [10.0.0.1] true] [a. local  [] true] [. ask upstreams [10.0.0.2] false]]" {
		t.Errorf("got routes %s", routes)
	}

	// Values that change with each query are not announced. Several changes within a moment are one
	// signal.
	w.mu.Lock()
	w.status.Cache.Hits, w.status.Queries.UDP = 1, 2
	w.mu.Unlock()
	w.service.Changed()
	w.mu.Lock()
	w.status.Ready, w.status.Problems = false, []string{"p", "q"}
	w.mu.Unlock()
	w.service.Changed()
	w.service.Changed()
	changed = w.next(signals, "org.freedesktop.DBus.Properties.PropertiesChanged")
	if diff := cmp.Diff([]any{managerInterface, map[string]dbus.Variant{
		"Ready": dbus.MakeVariant(false), "Problems": dbus.MakeVariant([]string{"p", "q"}),
	}, []string{}}, changed.Body, cmp.AllowUnexported(dbus.Variant{}, dbus.Signature{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestOddText proves that invalid UTF-8, as in the name of a file, an interface or a certificate,
// hides no other value.
func TestOddText(t *testing.T) {
	w := start(t)
	const odd = "caf\xe9\x00"
	w.mu.Lock()
	w.status = control.Status{
		Problems: []string{odd}, Notes: []string{odd}, Listeners: []control.Listener{{Address: odd, Error: odd}},
		Routes: []control.Route{{Domain: ".", Source: odd, Servers: []control.Server{{Address: odd, Error: odd}}}},
		Bus:    &control.Bus{Names: []control.BusName{{Name: ManagerName, Why: odd}}},
	}
	w.mu.Unlock()
	var all map[string]dbus.Variant
	if err := managerOf(w.dial()).Call("org.freedesktop.DBus.Properties.GetAll", 0, managerInterface).Store(&all); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(all["Problems"].Value()); got != "[caf??]" {
		t.Errorf("got problems %s", got)
	}
}

func TestManagerMethods(t *testing.T) {
	w := start(t)
	manager := managerOf(w.dial())
	properties := "org.freedesktop.DBus.Properties."
	for _, tt := range []struct {
		method string
		args   []any
		want   string
	}{
		{managerInterface + ".FlushCache", nil, "[7]"},
		{managerInterface + ".Reload", nil, errorFailed + " node-dns.yaml:1:1: a fault"},
		{managerInterface + ".NoSuch", nil, errorMethod + ` Method "NoSuch" with signature "" on interface "org.node_dns.Manager" doesn't exist` + "\n"},
		{DnsmasqName + ".ClearCache", nil, errorMethod + ` Method "ClearCache" with signature "" on interface "uk.org.thekelleys.dnsmasq" doesn't exist` + "\n"},
		{properties + "Get", []any{managerInterface, "Ready"}, "[false]"},
		{properties + "Get", []any{managerInterface, "NoSuch"}, errorProperty + " unknown property NoSuch"},
		{properties + "Get", []any{DnsmasqName, "Ready"}, errorProperty + " unknown property Ready"},
		{properties + "Get", nil, errorArguments + " Expected interface and property"},
		{properties + "GetAll", []any{uint32(1)}, errorArguments + " Expected interface"},
		{properties + "GetAll", []any{DnsmasqName}, "[map[]]"},
		{properties + "Set", []any{managerInterface, "Ready", dbus.MakeVariant(true)}, errorReadOnly + " Ready is read-only"},
		{properties + "Set", nil, errorArguments + " Expected interface, property and value"},
		{"org.freedesktop.DBus.Peer.Ping", nil, "[]"},
		{"org.freedesktop.DBus.Peer.NoSuch", nil, errorMethod + ` Method "NoSuch" with signature "" on interface "org.freedesktop.DBus.Peer" doesn't exist` + "\n"},
	} {
		call := manager.Call(tt.method, 0, tt.args...)
		got := fmt.Sprint(call.Body)
		var remote dbus.Error
		if errors.As(call.Err, &remote) {
			got = remote.Name + " " + remote.Error()
		}
		if got != tt.want {
			t.Errorf("%s%v: got %q, want %q", tt.method, tt.args, got, tt.want)
		}
	}
	for path, want := range map[string]string{"/": `<node name="uk"/>`, "/org": `<node name="node_dns"/>`, "/uk/org": `<node name="thekelleys"/>`, "/else": "<node>\n</node>"} {
		var text string
		if err := w.dial().Object(ManagerName, dbus.ObjectPath(path)).Call("org.freedesktop.DBus.Introspectable.Introspect", 0).Store(&text); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: got %s, %v", path, text, err)
		}
	}
}

const policy = "../../../packaging/dbus/node-dns.conf"

// TestPolicy proves that, with the installed policy, the bus serves root and refuses the user
// nobody for each name and method. That user can neither receive our signals nor own our names.
func TestPolicy(t *testing.T) {
	if os.Geteuid() != 0 {
		lab.Skip(t, "needs root, to call as another user")
	}
	w := newWorld(t, policy)
	w.bus.Start()
	w.run(DnsmasqName, ManagerName)
	w.awaitNames()
	set := []string{"dbus-send", "--bus=" + w.bus.Address(), "--print-reply", "--dest=" + DnsmasqName, dnsmasqPath, "uk.org.thekelleys.SetDomainServers", "array:string:/a.example/10.0.0.1"}
	ready := []string{"dbus-send", "--bus=" + w.bus.Address(), "--print-reply", "--dest=" + ManagerName, managerPath, "org.freedesktop.DBus.Properties.GetAll", "string:" + managerInterface}
	own := func(name string) []string {
		return []string{"dbus-send", "--bus=" + w.bus.Address(), "--print-reply", "--dest=org.freedesktop.DBus", "/", "org.freedesktop.DBus.RequestName", "string:" + name, "uint32:0"}
	}
	lab.NeedPrograms(t, "dbus-send", "setpriv")
	as := func(user string, argv []string) string {
		out, err := exec.Command("setpriv", append([]string{"--reuid=" + user, "--regid=nogroup", "--clear-groups", "--"}, argv...)...).CombinedOutput()
		if err != nil {
			return string(out)
		}
		return "ok"
	}
	for _, argv := range [][]string{set, ready, own(DnsmasqName), own(ManagerName)} {
		if got := as("root", argv); got != "ok" {
			t.Errorf("root: %q: %s", argv, got)
		}
		if got := as("nobody", argv); !strings.Contains(got, errorAccess) {
			t.Errorf("nobody: %q: %s", argv, got)
		}
	}
	if got := texts(w.service.config.State().Rules); got != "/a.example/10.0.0.1" {
		t.Errorf("got servers %s", got)
	}
}

// TestOtherPolicy proves that a user who may reach the name through another policy, such as
// dnsmasq's for its own user, cannot change anything.
func TestOtherPolicy(t *testing.T) {
	if os.Geteuid() != 0 {
		lab.Skip(t, "needs root, to call as another user")
	}
	w := start(t)
	if err := os.Chmod(w.bus.Dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	lab.NeedPrograms(t, "dbus-send", "setpriv")
	for _, method := range []string{"SetServers uint32:1", "SetDomainServers array:string:10.0.0.1", "SetFilterA boolean:true", "ClearCache", "ClearMetrics"} {
		argv := append([]string{"--reuid=nobody", "--regid=nogroup", "--clear-groups", "--", "dbus-send", "--bus=" + w.bus.Address(), "--print-reply", "--dest=" + DnsmasqName, dnsmasqPath},
			strings.Fields("uk.org.thekelleys."+method)...)
		out, err := exec.Command("setpriv", argv...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), errorAccess+": only root and the user of node-dns may call") {
			t.Errorf("%s: got %s", method, out)
		}
	}
}

// TestStoppedBus proves that a bus that does not answer blocks nothing.
func TestStoppedBus(t *testing.T) {
	w := start(t)
	lab.SendSignal(t, w.bus.Process(), syscall.SIGSTOP)
	w.stop()
}
