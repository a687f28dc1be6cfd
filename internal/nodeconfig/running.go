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

// The keys of a KubeletConfiguration that KubeletSays speaks of.
const (
	KeyClusterDNS    = "clusterDNS"
	KeyClusterDomain = "clusterDomain"
	KeyResolvConf    = "resolvConf"
)

// Bounds of a directory of drop-ins. The kubelet has none.
const (
	maxDropIns       = 256   // files that are read
	maxDropInEntries = 10000 // files and directories that are looked at
)

// ErrElsewhere is of a file that is another one to the kubelet than to us.
var ErrElsewhere = errors.New("the kubelet sees other files there than we do (another mount namespace, or root directory): not read")

// KubeletFiles are the configuration files that a running kubelet was told of on its command line, wherever they are. The paths are
// absolute, as the host has them.
type KubeletFiles struct {
	Config  string // --config; "": none
	DropIns string // --config-dir: a directory; "": none
	WorkDir string // the kubelet's own, which relative paths in drop-ins are of
	Root    string // where the host's files are; "": /
	// IsOther reports whether a path is known to be another file to the kubelet than to us; nil: none is.
	IsOther func(path string) bool
}

// KubeletSays is what KubeletFiles say together. A key that is in neither of the maps is in no file: the kubelet goes by its default.
type KubeletSays struct {
	DNS        []netip.Addr // clusterDNS
	Domain     dnsname.Name // clusterDomain; zero: none
	ResolvConf string       // absolute, as the host has it; "": pods have nothing of the node's, where Sources has the key

	Sources  map[string]Source // which file says each key, as the host has it
	Unknown  map[string]bool   // keys that may be said where a file cannot be read, or is at fault
	Problems []KubeletProblem
}

// KubeletProblem is why something is not known of a running kubelet's configuration.
type KubeletProblem struct {
	File string // or the directory, as the host has it
	Err  error  // a Fault, or why it cannot be read
}

// String is one line that names the file: "FILE:LINE:COLUMN: …", or "FILE: …".
func (p KubeletProblem) String() string {
	if fault, ok := p.Err.(*Fault); ok {
		return fault.Error()
	}
	why := p.Err
	if path, ok := why.(*fs.PathError); ok && strings.HasSuffix(path.Path, p.File) { // which names it under the root
		why = path.Err
	}
	return fmt.Sprintf("%s: %v", p.File, why)
}

// IsUnseen reports whether it is of us, who may not see the file, and not of the file.
func (p KubeletProblem) IsUnseen() bool {
	return errors.Is(p.Err, fs.ErrPermission) || errors.Is(p.Err, ErrElsewhere)
}

// Load reads the files as the kubelet does (mergeKubeletConfigurations of cmd/kubelet/app/server.go, Kubernetes 1.36; alpha in 1.28): Config, then what is named *.conf in
// DropIns and below, in the order of a walk by names. Each is a JSON merge patch (RFC 7386) of those before it: a list replaces a list,
// null takes a key out. The kubelet does not start with a file that it cannot read, but it has read them when it started: a file with
// a fault leaves unknown what it may say, until a later one says it. nil: the kubelet was told of no file.
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
		s.read(f, file, f.WorkDir) // the kubelet makes paths absolute in Config alone
	}
	return s
}

// dropIns are the files of the directory, in their order. As the kubelet's walk it follows no link to a directory, not even for the
// first one unless that ends in a slash.
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

// lose is for a file of which nothing is known.
func (s *KubeletSays) lose(file string, why error) {
	for _, key := range kubeletKeys {
		delete(s.Sources, key.name)
		s.Unknown[key.name] = true
	}
	s.Problems = append(s.Problems, KubeletProblem{file, why})
}

// read lays a file over what the ones before it said. dir is what its relative paths are of.
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
		s.lay(r, c, key.name)
	}
}

// lay lays one key of a file that was read into c over what the files before it said.
func (s *KubeletSays) lay(r *reader, c Config, key string) {
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
	switch key { // the zero value, where it is blank
	case KeyClusterDNS:
		s.DNS = c.DNSIPs
	case KeyClusterDomain:
		s.Domain = c.ClusterDomain
	case KeyResolvConf:
		s.ResolvConf = c.KubeletResolvConf
	}
}
