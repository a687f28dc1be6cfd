package nodeconfig

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// Paths are the files that Load reads. "" is a file that is not looked for.
type Paths struct {
	NodeConfig string // OpenShift 3
	Bootstrap  string // OpenShift 3.10 and 3.11, before the sync pod delivers NodeConfig
	Kubelet    string // other Kubernetes nodes
	NodeDNS    string // ours
	Facts      string // what the privileged half read of the first three
	Kubeconfig string // the usual one, where they name none
	Handover   string // what the privileged half made of the kubeconfig

	// Root is put before the absolute paths that the files name, as DefaultPaths puts it before its own. "" is "/".
	Root string
}

// DefaultPaths returns where the files are, under root; "" is "/".
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

// clusterFile is one of the files that may be the cluster's.
type clusterFile struct {
	name   string
	format format
}

// cluster are the files that may be the cluster's; the first one that exists is it.
func (p Paths) cluster() []clusterFile {
	return []clusterFile{
		{p.NodeConfig, nodeConfigFormat},
		{p.Bootstrap, nodeConfigFormat},
		{p.Kubelet, kubeletFormat},
	}
}

// Load reads the cluster's file, which is the first of NodeConfig, Bootstrap and Kubelet that exists, and NodeDNS. That a
// file is missing is no error: every default works. Where the cluster's file may not be read, Facts says what it says.
//
// The error joins all faults of all files (see Faults), and those of reading them. The Config returned beside an error
// holds what the keys without faults said; the caller decides whether to use it, or to keep what is running.
func Load(paths Paths) (Config, error) {
	c := defaults()
	clusterErr := c.loadCluster(paths)
	_, err := c.load(paths.NodeDNS, nodeDNSFormat, paths.Root)
	if c.Facts == nil && c.FactsWanted != "" && !c.ClusterDomain.IsZero() {
		clusterErr = nil // NodeDNS has the cluster domain, which is what must not be guessed
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

// load reads a file into c and says what it is; nil: it does not exist, or cannot be read, which is an error.
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

// readFile reads a regular file: all of it, or one byte more than a file may have.
func readFile(name string) ([]byte, fs.FileInfo, error) {
	file, info, err := atomicfile.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	return data, info, err
}

// ParseNodeConfig reads a node-config.yaml or bootstrap-node-config.yaml. name stands in the faults, and its directory is
// what relative paths are against. Load says what the error is, and the Config beside it.
func ParseNodeConfig(name string, in io.Reader) (Config, error) {
	return parseOne(name, in, nodeConfigFormat)
}

// ParseKubelet reads a KubeletConfiguration; see ParseNodeConfig.
func ParseKubelet(name string, in io.Reader) (Config, error) {
	return parseOne(name, in, kubeletFormat)
}

// ParseNodeDNS reads a node-dns.yaml; see ParseNodeConfig. An unknown key is a fault here.
func ParseNodeDNS(name string, in io.Reader) (Config, error) {
	return parseOne(name, in, nodeDNSFormat)
}

func parseOne(name string, in io.Reader, f format) (Config, error) {
	c := defaults()
	c.Files = []string{name}
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		c.forgetDomain(name)
		return c, fmt.Errorf("reading %s: %w", f.title, err)
	}
	return c, c.parse(name, data, f, "")
}

// format is one kind of file.
type format struct {
	title            string
	kind, apiVersion string // "": the file has none
	strict           bool
	keys             []key[Config]
}

// The files that are read.
var (
	nodeConfigFormat = format{title: "node-config", kind: "NodeConfig", apiVersion: "v1", keys: nodeConfigKeys}
	kubeletFormat    = format{title: "kubelet configuration", kind: "KubeletConfiguration", apiVersion: "kubelet.config.k8s.io/v1beta1", keys: kubeletKeys}
	nodeDNSFormat    = format{title: "node-dns.yaml", strict: true, keys: nodeDNSKeys}
)

// parse reads a file's text into c. Its errors are faults.
func (c *Config) parse(name string, data []byte, f format, root string) error {
	return c.parseBy(&reader{
		faults: &faultList{file: name}, strict: f.strict, sources: c.Sources,
		dir: filepath.Dir(name), root: root,
	}, data, f)
}

// parseBy is parse by a reader, which is new.
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

// keepClusterSources is called when the cluster's file was read, and node-dns.yaml was not.
func (c *Config) keepClusterSources() { c.ClusterSources = maps.Clone(c.Sources) }

// domainKeys are the keys that set the cluster domain, in all files.
var domainKeys = []string{"clusterDomain", "kubeletArguments.cluster-domain", "dnsDomain"}

// mayHoldDomain reports whether the cluster domain may be set at or below a path.
func mayHoldDomain(path string) bool {
	return slices.ContainsFunc(domainKeys, func(key string) bool {
		return path == "" || key == path || strings.HasPrefix(key, path+".")
	})
}

// forgetDomain leaves the cluster domain unknown, because what the file name says of it is, unless another file had it.
func (c *Config) forgetDomain(name string) {
	said := func(key string) bool {
		source, ok := c.Sources[key]
		return ok && source.File != name
	}
	if !slices.ContainsFunc(domainKeys, said) {
		c.ClusterDomain = dnsname.Name{}
	}
}

// isKind reports whether the file is what it should be, by its kind and apiVersion where it has them. Of another kind of
// file nothing is read: that its keys have the same names means nothing.
func (r *reader) isKind(v value, f format) bool {
	if v.node.Kind != yaml.MappingNode {
		return true // which readKeys says better
	}
	quiet := *r
	quiet.faults = &faultList{} // readKeys says them again
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
