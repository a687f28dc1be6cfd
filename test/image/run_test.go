package image

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// checkRun runs the programs of an unpacked image as its user, without any other file of this
// machine.
func checkRun(t *testing.T, layer []byte) {
	lab.Need(t, "tar", "chroot", "setpriv", "ip")
	root := unpack(t, layer) // before lab.New, so that it is removed after the daemon ended
	l := lab.New(t)
	box := l.Namespace("box")
	inside := func(argv ...string) []string {
		return append([]string{"chroot", "--userspec=65532:65532", root}, argv...)
	}
	if out, want := box.Run(inside("/usr/sbin/node-dns", "version")...), "node-dns "+version+"\ncommit "+revision+"\n"; !strings.HasPrefix(out, want) {
		t.Errorf("got the version %q, want %q", out, want)
	}
	if out := box.Run(inside("/usr/libexec/node-dns/node-dns-intercept", "--help")...); !strings.HasPrefix(out, "Usage:\n") {
		t.Errorf("got the help %q", out)
	}

	serve := inside("/usr/sbin/node-dns", "serve", "--listen", "127.0.0.1:53", "--upstream", "127.0.0.1:5300")
	if out, err := box.Try(append([]string{"setpriv", "--bounding-set=-net_bind_service"}, serve...)...); err == nil || !strings.Contains(out, "Operation not permitted") {
		t.Errorf("without CAP_NET_BIND_SERVICE in the bounding set: got %v, %q, want the kernel's refusal to start it", err, out)
	}
	if out, err := box.Try(append([]string{"setpriv", "--no-new-privs"}, serve...)...); err == nil || !strings.Contains(out, "bind: permission denied") {
		t.Errorf("with no_new_privs, started by a process without the capability: got %v, %q, want no permission for port 53", err, out)
	}
	const caps = "+net_bind_service,+sys_chroot,+dac_read_search"
	for _, start := range []struct {
		name string
		argv []string
	}{
		{"the bounding set of a pod that may escalate", append([]string{"setpriv", "--bounding-set=-all,+net_bind_service,+setuid,+setgid,+sys_chroot"}, serve...)},
		// This is how containerd starts it with allowPrivilegeEscalation: false. chroot(1) needs
		// the other two capabilities.
		{"no_new_privs, started by a process with the capability", append([]string{
			"setpriv", "--no-new-privs", "--reuid=65532", "--regid=65532", "--clear-groups",
			"--inh-caps=" + caps, "--ambient-caps=" + caps, "chroot", root,
		}, serve[3:]...)},
	} {
		daemon := box.Start(start.argv...)
		l.Await("node-dns to answer on port 53 with "+start.name, func() bool {
			out, err := box.Try(inside("/usr/sbin/node-dns", "query", "@127.0.0.1", "localhost")...)
			return err == nil && strings.Contains(out, ";; NOERROR from 127.0.0.1")
		})
		daemon.Stop()
	}
}

// unpack unpacks a layer like a container runtime, which runs as root.
func unpack(t *testing.T, layer []byte) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("tar", "--extract", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-C", dir)
	cmd.Stdin = bytes.NewReader(layer)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return dir
}
