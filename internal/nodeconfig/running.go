package nodeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// Keys of a KubeletConfiguration in KubeletSays.
const (
	KeyClusterDNS    = "clusterDNS"
	KeyClusterDomain = "clusterDomain"
	KeyResolvConf    = "resolvConf"
)

// Limits of a drop-in directory. The kubelet has none.
const (
	maxDropIns       = 256   // files that are read
	maxDropInEntries = 10000 // files and directories that are visited
)

// ErrElsewhere is the error for a path that is another file for the kubelet.
var ErrElsewhere = errors.New("the kubelet has other files at this path (another mount namespace or root directory); not read")

// KubeletFiles are the configuration files on a running kubelet's command line. The paths are
// absolute paths of the host.
type KubeletFiles struct {
	Config  string // --config; empty if not set
	DropIns string // --config-dir, a directory; empty if not set
	WorkDir string // the kubelet's working directory, for relative paths in drop-ins
	Root    string // where the host's files are mounted; empty means /
	// IsOther reports whether a path is known to be another file for the kubelet. Nil means that
	// none is.
	IsOther func(path string) bool
}

// KubeletSays is the merged content of KubeletFiles. If a key is in neither of the maps, no file
// sets it and the kubelet uses its default.
type KubeletSays struct {
	DNS        []netip.Addr // clusterDNS
	Domain     dnsname.Name // clusterDomain; zero if not set
	ResolvConf string       // absolute path on the host; if empty and in Sources, pods get nothing from the node

	Sources  map[string]Source // place of each key, as on the host
	Unknown  map[string]bool   // keys that an unreadable or faulty file may set
	Problems []KubeletProblem
}

// KubeletProblem is the reason why a part of a running kubelet's configuration is unknown.
type KubeletProblem struct {
	File string // file or directory, as on the host
	Err  error  // a Fault or a read error
}

// String returns one line with the file: "FILE:LINE:COLUMN: …" or "FILE: …".
func (p KubeletProblem) String() string {
	if fault, ok := p.Err.(*Fault); ok {
		return fault.Error()
	}
	why := p.Err
	if path, ok := why.(*fs.PathError); ok && strings.HasSuffix(path.Path, p.File) { // the error contains the path below the root
		why = path.Err
	}
	return fmt.Sprintf("%s: %v", p.File, why)
}

// IsUnseen reports whether the problem is that the caller cannot see the file, not the file itself.
func (p KubeletProblem) IsUnseen() bool {
	return errors.Is(p.Err, fs.ErrPermission) || errors.Is(p.Err, ErrElsewhere)
}

// Load reads the files like the kubelet (mergeKubeletConfigurations of cmd/kubelet/app/server.go,
// Kubernetes 1.36; alpha in 1.28): Config, then all *.conf in and below DropIns, in the order of a
// walk by names. Each one is a JSON merge patch (RFC 7386) of the earlier ones: a list replaces a
// list, and null removes a key. The kubelet does not start with an unreadable file, so it could
// read them when it started. Keys that a faulty file may set are therefore unknown until a later
// file sets them. Load returns nil if the command line names no file.
func (f KubeletFiles) Load() *KubeletSays {
	if f.Config == "" && f.DropIns == "" {
		return nil
	}
	s := &KubeletSays{Sources: map[string]Source{}, Unknown: map[string]bool{}}
	if f.Config != "" {
		s.read(f, f.Config, filepath.Dir(f.Config))
	}
	dropIns, err := f.dropIns()
	if err != nil {
		s.lose(f.DropIns, err)
	}
	for _, file := range dropIns {
		s.read(f, file, f.WorkDir) // the kubelet makes only paths in Config absolute
	}
	return s
}

// dropIns returns the drop-in files in order. Like the kubelet's walk, it follows no symlinks to
// directories. DropIns itself may be a symlink only if it ends in a slash.
func (f KubeletFiles) dropIns() ([]string, error) {
	if f.DropIns == "" {
		return nil, nil
	}
	if f.isOther(f.DropIns) {
		return nil, ErrElsewhere
	}
	dir := filepath.Join("/", f.Root, f.DropIns)
	if strings.HasSuffix(f.DropIns, "/") {
		dir += "/"
	}
	var all []string
	seen := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		seen++
		switch {
		case err != nil:
			return err
		case seen > maxDropInEntries:
			return fmt.Errorf("more than %d files and directories", maxDropInEntries)
		case entry.IsDir() || filepath.Ext(entry.Name()) != ".conf":
			return nil
		case len(all) == maxDropIns:
			return fmt.Errorf("more than %d files", maxDropIns)
		}
		all = append(all, hostPath(filepath.Join("/", f.Root), path))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (f KubeletFiles) isOther(path string) bool { return f.IsOther != nil && f.IsOther(path) }

// lose records that nothing is known about a file.
func (s *KubeletSays) lose(file string, why error) {
	for _, key := range kubeletKeys {
		delete(s.Sources, key.name)
		s.Unknown[key.name] = true
	}
	s.Problems = append(s.Problems, KubeletProblem{file, why})
}

// read merges a file over the earlier ones. dir is the base of its relative paths.
func (s *KubeletSays) read(f KubeletFiles, file, dir string) {
	if f.isOther(file) {
		s.lose(file, ErrElsewhere)
		return
	}
	root := filepath.Join("/", f.Root)
	path := filepath.Join(root, file)
	var data []byte
	var err error
	if refused := AsAnybody(root, path, func() { data, _, err = readFile(path) }); refused != nil {
		err = refused
	}
	if err != nil {
		s.lose(file, err)
		return
	}
	c := Config{Sources: map[string]Source{}}
	r := &reader{faults: &faultList{file: file}, sources: c.Sources, blank: map[string]value{}, dir: filepath.Join(root, dir), root: root}
	for _, fault := range Faults(c.parseBy(r, data, kubeletFormat)) {
		s.Problems = append(s.Problems, KubeletProblem{file, fault})
	}
	c.KubeletResolvConf = hostPath(root, c.KubeletResolvConf)
	for _, key := range kubeletKeys {
		s.mergeKey(r, c, key.name)
	}
}

// mergeKey merges one key of a file, read into c, over the earlier files.
func (s *KubeletSays) mergeKey(r *reader, c Config, key string) {
	source, isSaid := c.Sources[key]
	blank, isBlank := r.blank[key]
	isLost := slices.Contains(r.lost, "") || slices.Contains(r.lost, key)
	if !isSaid && !isBlank && !isLost {
		return
	}
	delete(s.Sources, key)
	delete(s.Unknown, key)
	switch {
	case isLost:
		s.Unknown[key] = true
		return
	case isBlank && isNull(blank.node):
	case isBlank:
		s.Sources[key] = Source{File: r.faults.file, Line: max(blank.key.Line, 1)}
	default:
		s.Sources[key] = source
	}
	switch key { // the zero value if it is blank
	case KeyClusterDNS:
		s.DNS = c.DNSIPs
	case KeyClusterDomain:
		s.Domain = c.ClusterDomain
	case KeyResolvConf:
		s.ResolvConf = c.KubeletResolvConf
	}
}
