package nodeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// Paths are the files that Load reads. An empty path is skipped.
type Paths struct {
	NodeConfig string // node-config.yaml of OpenShift 3
	Bootstrap  string // bootstrap file of OpenShift 3.10 and 3.11, used until the sync pod delivers NodeConfig
	Kubelet    string // kubelet configuration of other Kubernetes nodes
	NodeDNS    string // node-dns.yaml
	Facts      string // what the privileged half read from the first three
	Kubeconfig string // default kubeconfig, if the files name none
	Handover   string // kubeconfig written by the privileged half

	// Root is a prefix for the absolute paths in the files, as in DefaultPaths. Empty means "/".
	Root string
}

// DefaultPaths returns the paths below root. An empty root means "/".
func DefaultPaths(root string) Paths {
	return Paths{
		NodeConfig: filepath.Join(root, "/etc/origin/node/node-config.yaml"),
		Bootstrap:  filepath.Join(root, "/etc/origin/node/bootstrap-node-config.yaml"),
		Kubelet:    filepath.Join(root, "/var/lib/kubelet/config.yaml"),
		NodeDNS:    filepath.Join(root, "/etc/node-dns/node-dns.yaml"),
		Facts:      filepath.Join(root, "/var/lib/node-dns/node-config.json"),
		Kubeconfig: filepath.Join(root, "/etc/node-dns/kubeconfig"),
		Handover:   filepath.Join(root, "/var/lib/node-dns/kubeconfig"),
		Root:       root,
	}
}

type clusterFile struct {
	name   string
	format format
}

// cluster returns the possible cluster's files. The first one that exists is used.
func (p Paths) cluster() []clusterFile {
	return []clusterFile{
		{p.NodeConfig, nodeConfigFormat},
		{p.Bootstrap, nodeConfigFormat},
		{p.Kubelet, kubeletFormat},
	}
}

// Load reads the cluster's file, which is the first of NodeConfig, Bootstrap and Kubelet that
// exists, and NodeDNS. A missing file is not an error: every setting has a default. If the
// cluster's file may not be read, Facts replaces it.
//
// The error joins all faults of all files (see Faults) and all read errors. The Config returned
// with an error has the values of the valid keys. The caller decides whether to use it or to keep
// the running one.
func Load(paths Paths) (Config, error) {
	c := defaults()
	clusterErr := c.loadCluster(paths)
	_, err := c.load(paths.NodeDNS, nodeDNSFormat, paths.Root)
	if c.Facts == nil && c.FactsWanted != "" && !c.ClusterDomain.IsZero() {
		clusterErr = nil // NodeDNS sets the cluster domain, the only value that must not be guessed
	}
	return c, errors.Join(clusterErr, err)
}

func (c *Config) loadCluster(paths Paths) error {
	for _, file := range paths.cluster() {
		info, err := c.load(file.name, file.format, paths.Root)
		switch {
		case info != nil:
			c.Facts = c.newFacts(file, info, err, paths.Root)
			return err
		case errors.Is(err, fs.ErrPermission):
			return c.loadFacts(paths, err)
		case err != nil:
			return err
		}
	}
	c.Facts = &Facts{ClusterDomain: c.ClusterDomain}
	return nil
}

// load reads a file into c and returns its FileInfo. It returns nil if the file does not exist, and
// an error if it cannot be read.
func (c *Config) load(name string, f format, root string) (fs.FileInfo, error) {
	if name == "" {
		return nil, nil
	}
	data, info, err := readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		c.forgetDomain(name)
		return nil, fmt.Errorf("reading %s: %w", f.title, err)
	}
	c.Files = append(c.Files, name)
	return info, c.parse(name, data, f, root)
}

// readFile reads a regular file completely, but at most one byte over maxFile.
func readFile(name string) ([]byte, fs.FileInfo, error) { return atomicfile.Read(name, maxFile+1) }

// format is a kind of file.
type format struct {
	title            string
	kind, apiVersion string // empty if the file has none
	strict           bool
	keys             []key[Config]
}

var (
	nodeConfigFormat = format{title: "node-config", kind: "NodeConfig", apiVersion: "v1", keys: nodeConfigKeys}
	kubeletFormat    = format{title: "kubelet configuration", kind: "KubeletConfiguration", apiVersion: "kubelet.config.k8s.io/v1beta1", keys: kubeletKeys}
	nodeDNSFormat    = format{title: "node-dns.yaml", strict: true, keys: nodeDNSKeys}
)

// parse parses a file's text into c. Its errors are faults.
func (c *Config) parse(name string, data []byte, f format, root string) error {
	return c.parseBy(&reader{
		faults: &faultList{file: name}, strict: f.strict, sources: c.Sources,
		dir: filepath.Dir(name), root: root,
	}, data, f)
}

// parseBy is parse with a new reader.
func (c *Config) parseBy(r *reader, data []byte, f format) error {
	c.IsOpenShift = c.IsOpenShift || f.kind == nodeConfigFormat.kind
	if !f.strict {
		defer c.keepClusterSources()
	}
	top := readDocument(data, r.faults)
	switch {
	case top == nil && r.faults.count > 0, top != nil && f.kind != "" && !r.isKind(at("", top), f):
		r.lose("")
	case top != nil:
		readKeys(r, at("", top), f.keys, c)
	}
	if slices.ContainsFunc(r.lost, mayHoldDomain) {
		c.forgetDomain(r.faults.file)
	}
	return r.faults.err()
}

// keepClusterSources is called after the cluster's file was read and before node-dns.yaml is.
func (c *Config) keepClusterSources() { c.ClusterSources = maps.Clone(c.Sources) }

// domainKeys are the keys for the cluster domain in all files.
var domainKeys = []string{"clusterDomain", "kubeletArguments.cluster-domain", "dnsDomain"}

// mayHoldDomain reports whether a value at path may contain the cluster domain.
func mayHoldDomain(path string) bool {
	return slices.ContainsFunc(domainKeys, func(key string) bool {
		return path == "" || key == path || strings.HasPrefix(key, path+".")
	})
}

// forgetDomain makes the cluster domain unknown because of a fault in the file name, unless another
// file sets it.
func (c *Config) forgetDomain(name string) {
	said := func(key string) bool {
		source, ok := c.Sources[key]
		return ok && source.File != name
	}
	if !slices.ContainsFunc(domainKeys, said) {
		c.ClusterDomain = dnsname.Name{}
	}
}

// isKind checks the file's kind and apiVersion if the format has them. Keys of another kind of file
// are ignored, because the same names may have other meanings.
func (r *reader) isKind(v value, f format) bool {
	if v.node.Kind != yaml.MappingNode {
		return true // readKeys reports that
	}
	quiet := *r
	quiet.faults = &faultList{} // readKeys reports these faults
	entries := quiet.entries(v)
	before := r.faults.count
	for name, expected := range map[string]string{"kind": f.kind, "apiVersion": f.apiVersion} {
		entry, set := entries[name]
		if !set || isNull(entry.node) || isEmpty(entry.node) {
			continue
		}
		if text, ok := r.text(entry, expected); ok && text != expected {
			r.fault(entry, expected, Quote(text))
		}
	}
	return r.faults.count == before
}
