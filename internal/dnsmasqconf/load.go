package dnsmasqconf

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

const (
	maxFile  = 1 << 20 // of one file, in bytes
	maxFiles = 1000    // of all that are read
)

// Paths are the files that Load reads. "" is one that is not looked for.
type Paths struct {
	Root string // before the absolute paths that the files name; "": /
	Conf string // dnsmasq.conf
	// Dir is read behind Conf, unless a conf-dir of it read that already: distributions differ in who names it, Conf (RHEL) or
	// dnsmasq's command line (Debian).
	Dir string
	// Handover is our own file among them, which is left out: its servers are the captured ones.
	Handover string
	// Hosts is read unless no-hosts is set, where any other file was.
	Hosts string
}

// DefaultPaths returns where the files are below root; "" is /.
func DefaultPaths(root string) Paths {
	at := func(path string) string { return filepath.Join("/", root, path) }
	return Paths{
		Root: filepath.Join("/", root), Conf: at("/etc/dnsmasq.conf"), Dir: at("/etc/dnsmasq.d"),
		Handover: at("/etc/dnsmasq.d/origin-upstream-dns.conf"), Hosts: at("/etc/hosts"),
	}
}

// leftovers are what package managers and admins leave in a directory, and RHEL's and Debian's dnsmasq does not read.
const leftovers = ",.rpmnew,.rpmsave,.rpmorig,.dpkg-dist,.dpkg-old,.dpkg-new"

// Load reads dnsmasq's files. That there are none is no error. The error joins all faults of all files, as
// *nodeconfig.Fault, and those of reading them; the Config beside it holds what the lines without faults said, where
// dnsmasq would not start.
func Load(paths Paths) (Config, error) {
	l := loader{paths: paths, once: map[string]bool{}, config: Config{
		Flags: map[string]bool{}, Numbers: map[string]int{}, Sources: map[string]Place{},
	}}
	if paths.Conf != "" {
		if err := l.file(paths.Conf); !errors.Is(err, fs.ErrNotExist) {
			l.fail(err)
		}
	}
	if paths.Dir != "" && !slices.Contains(l.config.Dirs, paths.Dir) {
		if err := l.dir(paths.Dir + leftovers); !errors.Is(err, fs.ErrNotExist) {
			l.fail(err)
		}
	}
	if !l.config.IsEmpty() {
		l.loadHosts()
	}
	l.checkAliases()
	l.checkPorts()
	return l.config, l.err()
}

// loader reads one configuration.
type loader struct {
	paths  Paths
	config Config
	seen   []inode
	once   map[string]bool // the options that may stand once, and did
	faults []*nodeconfig.Fault
	errs   []error
	at     position
	stock  bool   // the file that is read is openshift-ansible's own
	hosts  []Host // of host-record
}

// inode is what dnsmasq tells files apart by: one that is there under two names is read once, and so a circle of conf-file
// ends.
type inode struct{ dev, ino uint64 }

// position is where a fault is.
type position struct {
	file         string
	line, column int // from 1; column in characters
}

func (l *loader) place() Place { return Place{l.at.file, l.at.line} }

func (l *loader) fail(err error) {
	if err != nil {
		l.errs = append(l.errs, err)
	}
}

// maxFaults bounds what is said of one configuration; nobody reads more.
const maxFaults = 100

func (l *loader) fault(option, expected, got string) {
	if len(l.faults) < maxFaults {
		l.faults = append(l.faults, &nodeconfig.Fault{
			File: l.at.file, Line: l.at.line, Column: l.at.column, Key: option, Expected: expected, Got: got,
		})
	}
}

func (l *loader) err() error {
	all := slices.Clone(l.errs)
	for _, fault := range l.faults {
		all = append(all, fault)
	}
	return errors.Join(all...)
}

// path is a path of a file, on this host. dnsmasq's service runs in /.
func (l *loader) path(text string) string { return filepath.Join(cmp.Or(l.paths.Root, "/"), text) }

// file reads one file, unless it was read before.
func (l *loader) file(name string) error {
	if name == l.paths.Handover {
		return nil
	}
	file, info, err := atomicfile.Open(name)
	if err != nil {
		return fmt.Errorf("reading dnsmasq's configuration: %w", err)
	}
	defer file.Close()
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && l.isSeen(inode{uint64(stat.Dev), stat.Ino}) {
		return nil
	}
	if slices.Contains(l.config.Files, name) {
		return nil
	}
	if len(l.config.Files) == maxFiles {
		return fmt.Errorf("reading dnsmasq's configuration: more than %d files, from %s on", maxFiles, name)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return fmt.Errorf("reading dnsmasq's configuration: %w", err)
	}
	l.config.Files = append(l.config.Files, name)
	at, stock := l.at, l.stock
	l.stock = isStock(name, data)
	l.text(name, data)
	l.at, l.stock = at, stock
	return nil
}

func (l *loader) isSeen(i inode) bool {
	if slices.Contains(l.seen, i) {
		return true
	}
	l.seen = append(l.seen, i)
	return false
}

// dir reads the files of a directory in the order of their names' bytes, as conf-dir=DIR,SUFFIX… says: a suffix leaves files
// out, one with * in front is of those that are read, the others then not. Names that begin with a dot, end in ~, or stand
// between # are never read.
func (l *loader) dir(text string) error {
	parts := strings.Split(text, ",")
	name := parts[0]
	entries, err := os.ReadDir(name)
	if err != nil {
		return fmt.Errorf("reading dnsmasq's configuration: %w", err)
	}
	l.config.Dirs = append(l.config.Dirs, name)
	var want, leave []string
	for _, suffix := range parts[1:] {
		suffix = strings.TrimSpace(suffix)
		if required, ok := strings.CutPrefix(suffix, "*"); ok && required != "" {
			want = append(want, required)
		} else if !ok && suffix != "" {
			leave = append(leave, suffix)
		}
	}
	var errs []error
	for _, entry := range entries {
		ends := func(suffix string) bool {
			return len(entry.Name()) > len(suffix) && strings.HasSuffix(entry.Name(), suffix)
		}
		if isLeftover(entry.Name()) || len(want) > 0 && !slices.ContainsFunc(want, ends) || slices.ContainsFunc(leave, ends) {
			continue
		}
		path := filepath.Join(name, entry.Name())
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			continue
		}
		errs = append(errs, l.file(path))
	}
	return errors.Join(errs...)
}

func isLeftover(name string) bool {
	return name[0] == '.' || strings.HasSuffix(name, "~") || name[0] == '#' && strings.HasSuffix(name, "#")
}
