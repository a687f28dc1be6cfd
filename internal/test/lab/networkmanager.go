package lab

import (
	"os"
	"path/filepath"
	"strings"
)

// networkManagerConfig is what suits a machine of veths: nothing is brought up unasked.
const networkManagerConfig = `[main]
plugins=keyfile
no-auto-default=*
dhcp=internal
`

// NetworkManager starts NetworkManager with these further lines in its [main] section ("dns=none", or nothing), and returns when it
// is ready. The bus must run. Starting it again after a Stop keeps what it had stored.
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

// Nmcli runs nmcli, and returns what it printed.
func (l *Lab) Nmcli(args ...string) string {
	l.t.Helper()
	return l.Run(append([]string{"nmcli"}, args...)...)
}

// hooks is where packages put NetworkManager's dispatcher scripts; those of the admin are in /etc (NetworkManager-dispatcher(8)).
const hooks = "/usr/lib/NetworkManager/dispatcher.d"

// Hook installs a program as a NetworkManager dispatcher script of this name, as a package would.
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
