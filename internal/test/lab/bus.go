package lab

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// busConfig configures a system bus like the installed one: its socket, a directory of services,
// default permissions and further content. The bus starts services itself, because there is no
// systemd.
const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=%s</listen>
  <auth>EXTERNAL</auth>
  <servicedir>%s</servicedir>
  <policy context="default">
    <allow user="*"/>
    %s
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
    <allow send_destination="org.freedesktop.DBus"/>
  </policy>
  %s
</busconfig>
`

// Default permissions of a bus before the policies of packages: none, as in the installed
// configuration, or all.
const (
	noRights  = `<deny own="*"/><deny send_type="method_call"/>`
	allRights = `<allow own="*"/><allow send_type="method_call"/>`
)

const (
	busFile      = "/run/lab/bus.conf"
	busSocket    = "/run/dbus/system_bus_socket"
	busPolicies  = "/run/lab/policies"
	dispatcherAt = "/run/lab/services/org.freedesktop.nm_dispatcher.service"
)

// dispatchers are the paths of nm-dispatcher: Debian bookworm; Debian trixie, Fedora and RHEL.
var dispatchers = []string{"/usr/lib/NetworkManager/nm-dispatcher", "/usr/libexec/nm-dispatcher"}

// Bus starts the machine's system bus and returns when it accepts connections. The bus starts
// nm-dispatcher when NetworkManager needs it. Its Output contains the output of hooks.
func (l *Lab) Bus() *Process {
	l.t.Helper()
	Need(l.t, "dbus-daemon")
	l.WriteFile(busFile, fmt.Sprintf(busConfig, busSocket, filepath.Dir(dispatcherAt), noRights,
		"<includedir>/usr/share/dbus-1/system.d</includedir><includedir>"+busPolicies+"</includedir>"))
	l.WriteFile(dispatcherAt, "[D-BUS Service]\nName=org.freedesktop.nm_dispatcher\nUser=root\nExec="+l.dispatcher()+"\n")
	for _, dir := range []string{"/run/dbus", busPolicies} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			l.t.Fatal(err)
		}
	}
	os.Remove(busSocket) // left over by a killed bus
	p := l.Start(Command{Argv: []string{"dbus-daemon", "--config-file=" + busFile, "--nofork", "--nopidfile", "--nosyslog"}})
	l.Await("the system bus", func() bool {
		conn, err := net.Dial("unix", busSocket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return p
}

// BusPolicy installs a policy file, which takes effect at the next start of the bus.
func (l *Lab) BusPolicy(name, text string) {
	l.t.Helper()
	l.WriteFile(busPolicies+"/"+name, text)
}

func (l *Lab) dispatcher() string {
	l.t.Helper()
	for _, path := range dispatchers {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	Need(l.t, dispatchers[0]) // skips or fails the test
	return ""
}
