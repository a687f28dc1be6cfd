package dbusconn

import (
	"slices"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestStopPosts queries the service manager of RHEL 8, and a later one, for a unit with a drop-in
// that replaced the command to restore resolv.conf. systemd 239 has no ExecStopPostEx. There the
// drop-in was not detected, and resolv.conf was pointed at the node.
func TestStopPosts(t *testing.T) {
	old := []lastRun{{Path: "/bin/true", Argv: []string{"true", "x"}}}
	later := []execCommand{{Path: "/usr/sbin/hook", Argv: []string{"hook", "stopped"}, Flags: []string{"ignore-failure", "privileged"}}, {Path: "/bin/true", Argv: []string{"true"}}}
	for _, row := range []struct {
		name  string
		unit  unitOf
		want  []StopPost
		fails bool
	}{
		{"systemd 239", unitOf{"ExecStopPost": old}, []StopPost{{"/bin/true", []string{"true", "x"}, true}}, false},
		{"systemd 239, without any", unitOf{"ExecStopPost": []lastRun{}}, nil, false},
		{"systemd 252", unitOf{"ExecStopPost": old, "ExecStopPostEx": later}, []StopPost{{"/usr/sbin/hook", []string{"hook", "stopped"}, true}, {"/bin/true", []string{"true"}, false}}, false},
		{"neither", unitOf{}, nil, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := managerWith(t, row.unit).StopPosts(t.Context(), "node-dns.service")
			if (err != nil) != row.fails || !slices.EqualFunc(got, row.want, func(a, b StopPost) bool { return cmp.Equal(a, b) }) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestInvocation(t *testing.T) {
	for _, row := range []struct {
		name  string
		unit  unitOf
		want  string
		fails bool
	}{
		{"started", unitOf{"InvocationID": []byte{0xc0, 0xff, 0xee, 0}}, "c0ffee00", false},
		{"not started", unitOf{"InvocationID": []byte{}}, "", false},
		{"no answer", unitOf{}, "", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got, err := managerWith(t, row.unit).Invocation(t.Context(), "node-dns.service"); got != row.want || (err != nil) != row.fails {
				t.Errorf("got %q, %v, want %q", got, err, row.want)
			}
		})
	}
}

// unitOf holds the properties of a unit's D-Bus object.
type unitOf map[string]any

// GetUnit implements org.freedesktop.systemd1.Manager.
func (unitOf) GetUnit(string) (dbus.ObjectPath, *dbus.Error) { return "/unit", nil }

// Get implements org.freedesktop.DBus.Properties.
func (u unitOf) Get(_, property string) (dbus.Variant, *dbus.Error) {
	value, ok := u[property]
	if !ok {
		return dbus.Variant{}, dbus.NewError("org.freedesktop.DBus.Error.UnknownProperty", []any{"Unknown property " + property})
	}
	return dbus.MakeVariant(value), nil
}

// managerWith returns a connection to a service manager with one unit.
func managerWith(t *testing.T, unit unitOf) *Manager {
	t.Helper()
	bus := lab.NewPrivateBus(t)
	bus.Start()
	dial := func() *dbus.Conn {
		conn, err := dbus.Connect(bus.Address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	server := dial()
	for path, of := range map[dbus.ObjectPath]string{managerAt: name + ".Manager", "/unit": "org.freedesktop.DBus.Properties"} {
		if err := server.Export(unit, path, of); err != nil {
			t.Fatal(err)
		}
	}
	if reply, err := server.RequestName(name, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(reply, err)
	}
	return &Manager{dial()}
}
