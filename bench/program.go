package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// origin is the source of a program.
type origin int

const (
	treeOrigin   origin = iota // built from this tree
	debianOrigin               // a Debian package, in a tree of its own or on this machine
	moduleOrigin               // built from another Go module
)

type program struct {
	name   string
	origin origin
}

func ofTree(name string) program   { return program{name, treeOrigin} }
func ofModule(name string) program { return program{name, moduleOrigin} }
func debian(name string) program   { return program{name, debianOrigin} }

// place is where programs run. Debian's programs may have a root directory of their own and see no
// other files.
type place struct {
	programs string // directory of built programs
	root     string // of Debian's programs; "/" for those installed on this machine
	dir      string // for the files of a run
	inRoot   string // likewise, below root
	group    cgroup // group for servers
}

// in returns the same place, but with a control group for servers. The group is removed with the
// server.
func (p place) in(group cgroup) place {
	p.group = group
	return p
}

// newPlace creates the directories of a run. Without a tree of Debian programs, it uses those of
// this machine.
func newPlace(programs string) (p place, err error) {
	p = place{programs: programs, root: filepath.Join(programs, debianTree)}
	if _, err := os.Stat(p.root); err != nil || os.Geteuid() != 0 {
		p.root = "/"
	}
	if p.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return p, err
	}
	p.inRoot, err = os.MkdirTemp(filepath.Join(p.root, "tmp"), "bench-")
	return p, errors.Join(err, os.Chmod(p.inRoot, 0o755))
}

// remove removes the directories of the run.
func (p place) remove() error { return errors.Join(os.RemoveAll(p.dir), os.RemoveAll(p.inRoot)) }

// dirOf returns the run's directory for the files of a program.
func (p place) dirOf(of program) string {
	if of.origin == debianOrigin {
		return p.inRoot
	}
	return p.dir
}

// seen returns the path of a file below dirOf as the program sees it.
func (p place) seen(of program, path string) string {
	if of.origin != debianOrigin {
		return path
	}
	return filepath.Join("/", strings.TrimPrefix(path, p.root))
}

// command returns the command that starts a program, to which arguments can be appended.
func (p place) command(of program) ([]string, error) {
	if of.origin != debianOrigin {
		path := filepath.Join(p.programs, of.name)
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
		return []string{path}, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"} {
		path := filepath.Join(dir, of.name)
		if _, err := os.Stat(filepath.Join(p.root, path)); err != nil {
			continue
		}
		if p.root == "/" {
			return []string{path}, nil
		}
		return []string{"chroot", p.root, path}, nil
	}
	return nil, fmt.Errorf("%s is not installed", of.name)
}
