package nodeconfig

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"gopkg.in/yaml.v3"

	"github.com/node-dns/node-dns/internal/atomicfile"
)

// Paths are the files that Load reads. "" is a file that is not looked for.
type Paths struct {
	NodeConfig string // OpenShift 3
	Bootstrap  string // OpenShift 3.10 and 3.11, before the sync pod delivers NodeConfig
	Kubelet    string // other Kubernetes nodes
	NodeDNS    string // ours

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
		Root:       root,
	}
}

// Load reads the cluster's file, which is the first of NodeConfig, Bootstrap and Kubelet that exists, and NodeDNS. That a
// file is missing is no error: every default works.
//
// The error joins all faults of all files (see Faults), and those of reading them. The Config returned beside an error
// holds what the keys without faults said; the caller decides whether to use it, or to keep what is running.
func Load(paths Paths) (Config, error) {
	c := defaults()
	var errs []error
	cluster := []struct {
		name   string
		format format
	}{
		{paths.NodeConfig, nodeConfigFormat},
		{paths.Bootstrap, nodeConfigFormat},
		{paths.Kubelet, kubeletFormat},
	}
	for _, file := range cluster {
		found, err := c.load(file.name, file.format, paths.Root)
		errs = append(errs, err)
		if found {
			break
		}
	}
	_, err := c.load(paths.NodeDNS, nodeDNSFormat, paths.Root)
	return c, errors.Join(append(errs, err)...)
}

// load reads a file into c. A file that is there and cannot be read counts as found.
func (c *Config) load(name string, f format, root string) (found bool, err error) {
	if name == "" {
		return false, nil
	}
	file, _, err := atomicfile.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("reading %s: %w", f.title, err)
	}
	defer file.Close()
	c.Files = append(c.Files, name)
	return true, c.parse(name, file, f, root)
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
	return c, c.parse(name, in, f, "")
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

func (c *Config) parse(name string, in io.Reader, f format, root string) error {
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.title, err)
	}
	r := &reader{
		faults: &faultList{file: name}, strict: f.strict, sources: c.Sources,
		dir: filepath.Dir(name), root: root,
	}
	if top := readDocument(data, r.faults); top != nil {
		if v := at("", top); f.kind == "" || r.isKind(v, f) {
			readKeys(r, v, f.keys, c)
		}
	}
	return r.faults.err()
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
			r.fault(entry, expected, quote(text))
		}
	}
	return r.faults.count == before
}
