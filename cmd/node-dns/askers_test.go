package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// Commands that query the daemon for its status, and for things that an older daemon does not know.
var (
	statusAskers = []string{"status", "status --brief", "status --watch", "status --wait", "servers", "servers -o json", "servers --watch"}
	otherAskers  = []string{
		"servers --history", "servers --history --watch", "cache dump", "cache dump -o json", "cache dump a.example -o yaml", "cache flush --all", "cache stats", "monitor", "monitor --count 1 -o json", "log-queries", "log-queries on", "log-queries extra",
	}
)

// result is the exit code and the output of a program.
type result struct {
	code        int
	out, errors string
}

func resultOf(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), said.String()}
}

// TestOldDaemon: if the daemon's version knows only its status, commands report that it is old.
// They print nothing that a program could mistake for an answer, and --watch does not wait.
func TestOldDaemon(t *testing.T) {
	root := lab.ShortDir(t)
	listener, err := control.Listen(control.SocketPath(root))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- control.Serve(ctx, listener, control.API{Status: func(context.Context) control.Status { return control.Status{Ready: true} }})
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	if got := resultOf(t, exec.Command("node-dns", "--root", root, "status", "--brief")); got.code != exitOK || got.out != "ready\n" {
		t.Errorf("%+v", got)
	}
	for _, args := range otherAskers {
		got := resultOf(t, exec.Command("node-dns", append([]string{"--root", root}, strings.Fields(args)...)...))
		if got.code != exitProblem || holdsAnswer(got.out) || !strings.Contains(got.errors, "does not support this request") {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// holdsAnswer reports whether the output has more than an error.
func holdsAnswer(out string) bool {
	return out != "" && !strings.Contains(out, `"kind":"Error"`) && !strings.Contains(out, "kind: Error\n")
}

// guestAskers are the commands that any local user may run.
var guestAskers = []string{"status", "status --brief", "servers", "servers --history", "query www.example", "explain www.example", "cache stats", "wait", "version"}

// TestOtherUser: a user who is neither root nor an admin sees what a client of the node can learn,
// and the message says who may do the rest.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		lab.Skip(t, "becomes another user, which takes root")
	}
	site := dnstest.NewServer(t, siteRecords)
	p := start(t, "exec node-dns --root $ROOT serve --listen 127.0.0.1:0 --upstream $SITE", "SITE="+site.Addr().String())
	p.await("it is ready", func() bool { return p.has("/run/node-dns/ready") })
	if err := os.Chmod(p.root, 0o755); err != nil {
		t.Fatal(err)
	}
	program := publicCopy(t)
	asNobody := func(args string) result {
		cmd := exec.Command(program, append([]string{"--root", p.root}, strings.Fields(args)...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		return resultOf(t, cmd)
	}
	for _, args := range guestAskers {
		if got := asNobody(args); strings.Contains(got.errors, "permission") || got.out == "" && args != "wait" {
			t.Errorf("%s: %+v", args, got)
		}
	}
	const hidden = "\nHidden      names and clients of queries, cached answers: shown only to root and the group node-dns-admin\n"
	if got := asNobody("status"); !strings.Contains(got.out, hidden) {
		t.Errorf("the user is not told that something is hidden: %+v", got)
	}
	if got, _ := p.runWith("status"); strings.Contains(got, "Hidden") {
		t.Errorf("something is hidden from root: %s", got)
	}
	for _, args := range append(otherAskers, "explain www.example --pod shop/web", "query www.example --fresh", "query www.example --as 10.0.0.1") {
		if slices.Contains(guestAskers, strings.TrimSuffix(args, " --watch")) {
			continue
		}
		got := asNobody(args)
		if got.code != exitDenied || holdsAnswer(got.out) || !strings.Contains(got.errors, "permission denied: ") || !strings.Contains(got.errors, "\n  try it with sudo\n") {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// TestNoPermission: the error tells a user without permission who has it. The error does not claim
// that the daemon is not running.
func TestNoPermission(t *testing.T) {
	site := dnstest.NewServer(t, siteRecords)
	p := start(t, "exec node-dns --root $ROOT serve --listen 127.0.0.1:0 --upstream $SITE", "SITE="+site.Addr().String())
	p.await("it is ready", func() bool { return p.has("/run/node-dns/ready") })
	program := publicCopy(t)
	for _, dir := range []string{"", "/run", "/run/node-dns"} {
		if err := os.Chmod(filepath.Join(p.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(control.SocketPath(p.root), 0); err != nil {
		t.Fatal(err)
	}
	for _, args := range slices.Concat(statusAskers, otherAskers) {
		cmd := exec.Command(program, append([]string{"--root", p.root}, strings.Fields(args)...)...)
		if os.Getuid() == 0 { // root may do everything
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		got := resultOf(t, cmd)
		if got.code != exitDenied || holdsAnswer(got.out) || !strings.Contains(got.errors, "permission denied: ") || !strings.Contains(got.errors, "\n  try it with sudo\n") {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// publicCopy copies node-dns to a path where every user can run it.
func publicCopy(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	dir := lab.ShortDir(t)
	to, err := os.OpenFile(filepath.Join(dir, "node-dns"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(to, from)
		err = errors.Join(err, to.Close(), os.Chmod(dir, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	return to.Name()
}
