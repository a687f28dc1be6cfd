package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

const siteRecords = "example. 300 IN SOA ns.example. h.example. 1 2 3 4 5\nwww.example. 300 IN A 192.0.2.80\n"

// another runs node-dns on the tree of p, with its output in said. It is killed when the test ends.
func (p *process) another(said *lab.Text, env []string, args ...string) *exec.Cmd {
	p.t.Helper()
	cmd := exec.Command("node-dns", append([]string{"--root", p.root}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { cmd.Process.Kill() })
	return cmd
}

// TestWatch: outputs follow each other, through a restart of the daemon, until SIGINT ends watch
// successfully.
func TestWatch(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	p := start(t, "exec node-dns --root $ROOT serve --listen 127.0.0.1:0 --upstream $SITE", "SITE="+site.Addr().String())
	p.await("it is ready", func() bool { return p.has("/run/node-dns/ready") })
	for _, row := range []struct {
		args  []string
		block string // output while the daemon runs
	}{
		{[]string{"status", "--watch", "0.1"}, "\nUpstreams   "},
		{[]string{"servers", "--watch=100ms"}, "\nDOMAIN "},
		{[]string{"--brief", "--watch=100ms", "-o", "yaml"}, "---\napiVersion: node-dns/v1\nkind: StatusBrief\n"},
		{[]string{"servers", "--history", "--watch=100ms", "-o", "json"}, "  \"kind\": \"ServerHistory\",\n"},
	} {
		said := new(lab.Text)
		watching := p.another(said, nil, row.args...)
		p.await(fmt.Sprintf("%v twice", row.args), func() bool { return strings.Count("\n"+said.String(), row.block) > 2 })
		if strings.Contains(said.String(), "\x1b") {
			t.Errorf("%v: %q", row.args, said)
		}
		watching.Process.Signal(os.Interrupt)
		if err := watching.Wait(); err != nil {
			t.Errorf("%v ended with %v: %s", row.args, err, said)
		}
	}

	said := new(lab.Text)
	watching := p.another(said, nil, "status", "--brief", "--watch=100ms")
	p.await("its status", func() bool { return strings.HasPrefix(said.String(), "ready\n") })
	p.Process.Kill()
	p.Wait()
	p.await("that it is gone", func() bool { return strings.Contains(said.String(), "\n! node-dns is not running: ") })
	p.another(new(lab.Text), nil, "serve", "--listen", "127.0.0.1:0", "--upstream", site.Addr().String())
	p.await("that it is back", func() bool {
		_, after, _ := strings.Cut(said.String(), "\n! node-dns is not running: ")
		return strings.Contains(after, "\nready\n")
	})
	watching.Process.Signal(os.Interrupt)
	if err := watching.Wait(); err != nil {
		t.Errorf("ended with %v: %s", err, said)
	}
}

// terminal opens a pseudo-terminal with the given number of lines.
func terminal(t *testing.T, lines uint16) (master, end *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil && !lab.Required() {
		t.Skip("pseudo-terminals are not available: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: lines, Col: 80})
	}
	if err == nil {
		end, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end.Close() })
	return master, end
}

// TestColours: on a terminal problems are red unless NO_COLOR is set, and --watch overwrites its
// previous output with no more lines than fit.
func TestColours(t *testing.T) {
	t.Parallel()
	p := start(t, "exec node-dns --root $ROOT serve --listen 127.0.0.1:0 --upstream 127.0.0.1:1")
	p.await("it is ready", func() bool { return p.has("/run/node-dns/ready") })
	master, end := terminal(t, 6)
	said := new(lab.Text)
	go func() {
		room := make([]byte, 4096)
		for {
			n, err := master.Read(room)
			if err != nil {
				return
			}
			said.Write(room[:n])
		}
	}()
	run := func(env, text string, args ...string) string {
		t.Helper()
		before := len(said.String())
		cmd := exec.Command("node-dns", append([]string{"--root", p.root}, args...)...)
		cmd.Env, cmd.Stdout = append(os.Environ(), "TERM=xterm", env), end
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p.await(text, func() bool { return strings.Contains(said.String()[before:], text) })
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		return said.String()[before:]
	}
	if got := run("NO_COLOR=", "\x1b[31mFAILS\x1b[0m", "servers"); !strings.Contains(got, "FAILED  SOURCE") {
		t.Errorf("the heading is colored: %q", got)
	}
	if got := run("NO_COLOR=1", "FAILS", "servers"); strings.Contains(got, "\x1b") {
		t.Errorf("colors: %q", got)
	}
	got := run("NO_COLOR=1", "\x1b[?7h\x1b[?7l\x1b[H", "status", "--watch=100ms")
	first, _, _ := strings.Cut(got, "\x1b[?7h")
	if n := strings.Count(first, "\n"); n != 5 || !strings.HasPrefix(first, "\x1b[?7l\x1b[H\x1b[2Jnode-dns") {
		t.Errorf("%d lines: %q", n, first)
	}
}
