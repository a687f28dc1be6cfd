package lab

import (
	"os"
	"path/filepath"
	"strings"
)

// networkManagerConfig suits a machine with veths: no automatic connections.
const networkManagerConfig = `[main]
plugins=keyfile
no-auto-default=*
dhcp=internal
`

// NetworkManager starts NetworkManager, with further lines for its [main] section ("dns=none", or
// nothing), and returns when it is ready. The bus must be running. After a Stop, a new start keeps
// the stored state.
func (l *Lab) NetworkManager(main ...string) *Process {
	l.t.Helper()
	Need(l.t, "NetworkManager", "nmcli")
	l.WriteFile("/etc/NetworkManager/NetworkManager.conf",
		networkManagerConfig+strings.Join(main, "\n")+"\n[connectivity]\nenabled=false\n")
	p := l.Start(Command{Argv: []string{"NetworkManager", "--debug", "--log-level=INFO"}})
	l.Await("NetworkManager", func() bool {
		out, err := l.Try("nmcli", "-t", "-f", "RUNNING,STARTUP", "general")
		return err == nil && strings.TrimSpace(out) == "running:started"
	})
	return p
}

// Nmcli runs nmcli and returns its output.
func (l *Lab) Nmcli(args ...string) string {
	l.t.Helper()
	return l.Run(append([]string{"nmcli"}, args...)...)
}

// hooks is the directory for dispatcher scripts of packages; those of the admin are in /etc
// (NetworkManager-dispatcher(8)).
const hooks = "/usr/lib/NetworkManager/dispatcher.d"

// Hook installs a program as a NetworkManager dispatcher script, like a package.
func (l *Lab) Hook(name, program string) {
	l.t.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		l.t.Fatal(err)
	}
	path := filepath.Join(hooks, name)
	l.WriteFile(path, string(data))
	if err := os.Chmod(path, 0o755); err != nil {
		l.t.Fatal(err)
	}
}
