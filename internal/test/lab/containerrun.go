package lab

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Run runs a program in the machine as root, waits until it ends, and returns its output. In a
// machine that is off, it runs as in an image build: without systemd, bus and network.
func (c *Container) Run(argv ...string) string {
	c.l.t.Helper()
	out, err := c.Try(argv...)
	if err != nil {
		c.l.t.Fatalf("%s: %s: %v\n%s", c.name, strings.Join(argv, " "), err, out)
	}
	return out
}

// Try is Run for commands that may fail. It is safe for concurrent use.
func (c *Container) Try(argv ...string) (string, error) {
	argv = c.enter(argv)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = containerEnv
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Start starts a program in the machine, as root, outside of systemd's units.
func (c *Container) Start(argv ...string) *Process {
	c.l.t.Helper()
	return c.l.Start(Command{Argv: c.enter(argv), Env: containerEnv})
}

// containerEnv is the environment of a root login.
var containerEnv = []string{"PATH=" + Path, "HOME=/root", "LANG=C.UTF-8", "SYSTEMD_PAGER="}

func (c *Container) enter(argv []string) []string {
	if c.leader == 0 {
		return c.enterOff(argv)
	}
	return slices.Concat([]string{"nsenter", "--target", strconv.Itoa(c.leader), "--all", "--"}, argv)
}

// Await is Lab.Await.
func (c *Container) Await(what string, ok func() bool) {
	c.l.t.Helper()
	c.l.Await(what, ok)
}

// Path returns the path of one of the machine's files in the Lab, whether the machine is on or off.
// It must not contain a symlink to an absolute path, which would lead out of the machine.
func (c *Container) Path(path string) string {
	if c.leader == 0 {
		return c.deployed.path(c.root, path)
	}
	return filepath.Join("/proc", strconv.Itoa(c.leader), "root") + path
}

// WriteFile writes a file of the machine atomically and makes its directory.
func (c *Container) WriteFile(path, content string, mode fs.FileMode) {
	c.l.t.Helper()
	at := c.Path(path)
	err := os.MkdirAll(filepath.Dir(at), 0o755)
	if err == nil {
		err = os.WriteFile(at+".lab", []byte(content), mode)
	}
	if err == nil {
		err = errors.Join(os.Chmod(at+".lab", mode), os.Rename(at+".lab", at))
	}
	if err != nil {
		c.l.t.Fatalf("writing a file of container %s: %v", c.name, err)
	}
}

// ReadFile returns the content of a file of the machine, or "" if it does not exist.
func (c *Container) ReadFile(path string) string {
	c.l.t.Helper()
	data, err := os.ReadFile(c.Path(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.l.t.Fatal(err)
	}
	return string(data)
}

// CopyFile copies a file of the Lab into the machine.
func (c *Container) CopyFile(path, from string, mode fs.FileMode) {
	c.l.t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		c.l.t.Fatal(err)
	}
	c.WriteFile(path, string(data), mode)
}

// Enable enables units, like `systemctl enable`, for the next boot. The machine must be off.
func (c *Container) Enable(units ...string) {
	c.l.t.Helper()
	c.l.Run(append([]string{"systemctl", "--quiet", "--root=" + c.root, "enable"}, units...)...)
}

// Journal returns the machine's journal of all boots, or the part that these journalctl(1) options
// select. It also works while the machine is off.
func (c *Container) Journal(options ...string) string {
	argv := slices.Concat([]string{"journalctl", "--no-pager", "--output=short-precise"}, options)
	if c.leader != 0 {
		out, _ := c.Try(argv...)
		return out
	}
	cmd := exec.Command(argv[0], append(argv[1:], "--directory="+c.Path("/var/log/journal"))...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		out = append(bytes.TrimSpace(out), " ("+err.Error()+")\n"...)
	}
	return string(out)
}
