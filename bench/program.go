package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// origin is where a program comes from.
type origin int

const (
	treeOrigin   origin = iota // built from this tree
	debianOrigin               // a package of Debian's, in a tree of its own or on this machine
	moduleOrigin               // built from another Go module
)

type program struct {
	name   string
	origin origin
}

func ofTree(name string) program   { return program{name, treeOrigin} }
func ofModule(name string) program { return program{name, moduleOrigin} }
func debian(name string) program   { return program{name, debianOrigin} }

// place is where programs are run. Debian's may have a root of their own, and see no other files.
type place struct {
	programs string // directory of what is built
	root     string // of Debian's programs; "/": those of this machine
	dir      string // for a run's files
	inRoot   string // likewise, below root
	group    cgroup // that servers are started in
}

// in is the same place, where servers are started in a control group, which ends with the server.
func (p place) in(group cgroup) place {
	p.group = group
	return p
}

// newPlace makes the directories of a run. Where there is no tree of Debian's, its programs are this machine's.
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

// dirOf is the directory of a run for what a program reads and writes.
func (p place) dirOf(of program) string {
	if of.origin == debianOrigin {
		return p.inRoot
	}
	return p.dir
}

// seen is how a program calls a file that is below its dirOf.
func (p place) seen(of program, path string) string {
	if of.origin != debianOrigin {
		return path
	}
	return filepath.Join("/", strings.TrimPrefix(path, p.root))
}

// command is how a program is started, its arguments to follow.
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
