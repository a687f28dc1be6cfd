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
	maxFiles = 1000    // of all files
)

// Paths are the files that Load reads. "" skips one.
type Paths struct {
	Root string // prefix of the absolute paths in the files; "" means /
	Conf string // dnsmasq.conf
	// Dir is read after Conf, unless a conf-dir in Conf has read it already: on RHEL Conf names the
	// directory, on Debian dnsmasq's command line does.
	Dir string
	// Handover is our own file, which is skipped: its servers are the captured ones.
	Handover string
	// Hosts is read unless no-hosts is set, if any other file was read.
	Hosts string
}

// DefaultPaths returns the default files below root; "" is /.
func DefaultPaths(root string) Paths {
	at := func(path string) string { return filepath.Join("/", root, path) }
	return Paths{
		Root: filepath.Join("/", root), Conf: at("/etc/dnsmasq.conf"), Dir: at("/etc/dnsmasq.d"),
		Handover: at("/etc/dnsmasq.d/origin-upstream-dns.conf"), Hosts: at("/etc/hosts"),
	}
}

// leftovers are the suffixes of backup files by package managers and admins, which dnsmasq on RHEL
// and Debian skips.
const leftovers = ",.rpmnew,.rpmsave,.rpmorig,.dpkg-dist,.dpkg-old,.dpkg-new"

// Load reads dnsmasq's files. Having none is not an error. The error joins all faults of all files,
// as *nodeconfig.Fault, and errors of reading them. In that case dnsmasq would not start, but the
// Config holds the content of the valid lines.
func Load(paths Paths) (Config, error) {
	l := newLoader(paths)
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

type loader struct {
	paths   Paths
	readers map[string]reader
	config  Config
	seen    []inode
	once    map[string]bool // options that may occur once, and have
	faults  []*nodeconfig.Fault
	errs    []error
	at      position
	stock   bool   // the current file is openshift-ansible's own
	hosts   []Host // from host-record
}

func newLoader(paths Paths) *loader {
	return &loader{paths: paths, readers: readers(), once: map[string]bool{}, config: Config{
		Flags: map[string]bool{}, Numbers: map[string]int{}, Sources: map[string]Place{},
	}}
}

// inode is how dnsmasq identifies files: a file with two names is read once, so a conf-file loop
// ends.
type inode struct{ dev, ino uint64 }

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

// maxFaults bounds the faults that are reported for one configuration.
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

// path returns the host's path of a file's path. dnsmasq's service runs in /.
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

// dir reads the files of a directory in byte order of their names, as conf-dir=DIR,SUFFIX… says. A
// suffix excludes files. A suffix with a leading * includes only its files. Names that start with a
// dot, end in ~, or have # on both ends are never read.
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
