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

// Run runs a program in the machine, as root, to its end, and returns what it printed. In a machine that is off it runs as what builds an
// image runs a program: there is no systemd, no bus and no network.
func (c *Container) Run(argv ...string) string {
	c.l.t.Helper()
	out, err := c.Try(argv...)
	if err != nil {
		c.l.t.Fatalf("%s: %s: %v\n%s", c.name, strings.Join(argv, " "), err, out)
	}
	return out
}

// Try is Run for what may fail. It is safe for concurrent use.
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

// containerEnv is what a login of root has.
var containerEnv = []string{"PATH=" + Path, "HOME=/root", "LANG=C.UTF-8", "SYSTEMD_PAGER="}

func (c *Container) enter(argv []string) []string {
	if c.leader == 0 {
		return c.enterOff(argv)
	}
	return slices.Concat([]string{"nsenter", "--target", strconv.Itoa(c.leader), "--all", "--"}, argv)
}

// Await is the Lab's.
func (c *Container) Await(what string, ok func() bool) {
	c.l.t.Helper()
	c.l.Await(what, ok)
}

// Path is where the Lab finds a file of the machine, on or off; not through a link to an absolute path, which leads elsewhere.
func (c *Container) Path(path string) string {
	if c.leader == 0 {
		return c.deployed.path(c.root, path)
	}
	return filepath.Join("/proc", strconv.Itoa(c.leader), "root") + path
}

// WriteFile gives a file of the machine this content and mode, whole, and makes its directory.
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

// ReadFile is the content of a file of the machine; "" when there is none.
func (c *Container) ReadFile(path string) string {
	c.l.t.Helper()
	data, err := os.ReadFile(c.Path(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.l.t.Fatal(err)
	}
	return string(data)
}

// CopyFile puts a file of the Lab into the machine.
func (c *Container) CopyFile(path, from string, mode fs.FileMode) {
	c.l.t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		c.l.t.Fatal(err)
	}
	c.WriteFile(path, string(data), mode)
}

// Enable has units start from the next boot on, as `systemctl enable` does; it is for a machine that is off.
func (c *Container) Enable(units ...string) {
	c.l.t.Helper()
	c.l.Run(append([]string{"systemctl", "--quiet", "--root=" + c.root, "enable"}, units...)...)
}

// Journal is what the machine logged, over all boots; with arguments, what these journalctl(1) options select. It works when the machine
// is off too.
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
