package nodeconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// factsVersion is the version that Facts.Bytes writes and ParseFacts accepts.
const factsVersion = 1

type factsText struct {
	Version int `json:"version"`
	Facts
}

// Facts are the validated DNS settings of the cluster's file, without its other content. OpenShift
// 3 keeps node-config.yaml at mode 0600, and the kubelet keeps its directory closed. The privileged
// half can read them and passes Facts on to the daemon, which cannot. Paths are those of the host,
// without a root.
type Facts struct {
	File  string `json:"file,omitempty"` // the cluster's file; empty if none exists
	Kind  string `json:"kind,omitempty"` // NodeConfig or KubeletConfiguration
	Stamp Stamp  `json:"stamp,omitzero"` // of File when it was read

	ClusterDomain          dnsname.Name        `json:"clusterDomain,omitzero"` // zero if unknown because of a fault
	DNSIPs                 []netip.Addr        `json:"dnsIPs,omitempty"`
	NodeIP                 netip.Addr          `json:"nodeIP,omitzero"`
	DNSBindAddress         netip.AddrPort      `json:"dnsBindAddress,omitzero"`
	DNSNameservers         []nameserver.Server `json:"dnsNameservers,omitempty"`
	DNSRecursiveResolvConf string              `json:"dnsRecursiveResolvConf,omitempty"`
	MasterKubeConfig       string              `json:"masterKubeConfig,omitempty"`
	KubeletResolvConf      string              `json:"kubeletResolvConf,omitempty"`
	PodCIDRs               []netip.Prefix      `json:"podCIDRs,omitempty"`
	NodeName               string              `json:"nodeName,omitempty"`

	Lines  map[string]int `json:"lines,omitempty"` // lines of Config.Sources
	Faults []factsFault   `json:"faults,omitempty"`
}

// factsFault is a Fault without the text of the file, which users who may not read the file must
// not see.
type factsFault struct {
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Key      string `json:"key,omitempty"`
	Expected string `json:"expected"`
}

// Stamp distinguishes contents of a file, as far as stat(2) can, which needs no read permission.
// The change time detects copies that keep the modification time (cp -p, rsync -t).
type Stamp struct {
	Inode    uint64    `json:"inode"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Changed  time.Time `json:"changed"`
}

func stampOf(info fs.FileInfo) Stamp {
	stamp := Stamp{Size: info.Size(), Modified: info.ModTime().UTC()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		stamp.Inode, stamp.Changed = stat.Ino, time.Unix(stat.Ctim.Unix()).UTC()
	}
	return stamp
}

// newFacts returns what a cluster's file has put into c. err has its faults.
func (c *Config) newFacts(file clusterFile, info fs.FileInfo, err error, root string) *Facts {
	host := func(path string) string { return hostPath(root, path) }
	f := &Facts{
		File: host(file.name), Kind: file.format.kind, Stamp: stampOf(info),
		ClusterDomain: c.ClusterDomain, DNSIPs: c.DNSIPs, NodeIP: c.NodeIP, DNSBindAddress: c.DNSBindAddress,
		DNSNameservers: c.DNSNameservers, DNSRecursiveResolvConf: host(c.DNSRecursiveResolvConf),
		MasterKubeConfig: host(c.MasterKubeConfig), KubeletResolvConf: host(c.KubeletResolvConf), PodCIDRs: c.PodCIDRs,
		NodeName: c.Resolver.NodeName,
		Lines:    map[string]int{},
	}
	for key, source := range c.Sources {
		f.Lines[key] = source.Line
	}
	for _, fault := range Faults(err) {
		f.Faults = append(f.Faults, factsFault{fault.Line, fault.Column, fault.Key, fault.Expected})
	}
	return f
}

// put changes c as if the cluster's file had been read, and returns that file's faults.
func (f *Facts) put(c *Config, root string) error {
	under := func(path string) string {
		if path == "" {
			return ""
		}
		return filepath.Join(root, path)
	}
	c.ClusterDomain, c.DNSIPs, c.NodeIP, c.DNSBindAddress = f.ClusterDomain, f.DNSIPs, f.NodeIP, f.DNSBindAddress
	c.DNSNameservers, c.PodCIDRs, c.Resolver.NodeName = f.DNSNameservers, f.PodCIDRs, f.NodeName
	c.IsOpenShift = f.Kind == nodeConfigFormat.kind
	c.DNSRecursiveResolvConf = under(f.DNSRecursiveResolvConf)
	c.MasterKubeConfig, c.KubeletResolvConf = under(f.MasterKubeConfig), under(f.KubeletResolvConf)
	if f.File == "" {
		return nil
	}
	file := under(f.File)
	c.Files = append(c.Files, file)
	for key, line := range f.Lines {
		c.Sources[key] = Source{File: file, Line: line}
	}
	c.keepClusterSources()
	faults := &faultList{file: file}
	for _, fault := range f.Faults {
		faults.add(fault.Line, fault.Column, fault.Key, fault.Expected, "something else, which node-dns check-config shows to root")
	}
	return faults.err()
}

// loadFacts uses the facts file in place of a cluster's file that may not be read.
func (c *Config) loadFacts(paths Paths, denied error) error {
	facts, err := readFacts(paths)
	if err != nil {
		c.FactsWanted = fmt.Sprintf("the settings of the cluster's file are unknown: %v", err)
		return fmt.Errorf("the cluster domain is unknown: %w, and there are no usable facts from origin-dns-dispatcher (%v): "+
			`run "origin-dns-dispatcher apply" as root, or set clusterDomain in %s`, denied, err, paths.NodeDNS)
	}
	c.Facts, c.FactsFile, c.FactsWanted = facts, paths.Facts, facts.changed(paths)
	return facts.put(c, paths.Root)
}

// readFacts reads the facts file. It fails if the facts are about a file other than the current
// one.
func readFacts(paths Paths) (*Facts, error) {
	data, _, err := readFile(paths.Facts)
	if err != nil {
		return nil, err
	}
	facts, err := ParseFacts(data)
	if err != nil {
		return nil, err
	}
	return &facts, facts.checkFile(paths)
}

// checkFile checks, as far as possible, that the facts are about the current cluster's file.
func (f *Facts) checkFile(paths Paths) error {
	for _, file := range paths.cluster() {
		if file.name == "" {
			continue
		}
		_, err := os.Stat(file.name)
		is := hostPath(paths.Root, file.name) == f.File
		switch {
		case err == nil && !is:
			return fmt.Errorf("%s did not exist when origin-dns-dispatcher read the files", file.name)
		case errors.Is(err, fs.ErrNotExist) && is:
			return fmt.Errorf("%s no longer exists", file.name)
		case is:
			return nil // may also be in a closed directory
		}
	}
	if f.File != "" {
		return fmt.Errorf("the facts are about %s, which is not this host's cluster file", f.File)
	}
	return nil
}

// changed returns a message if the cluster's file has changed since the facts were read. It returns
// "" if not, or if that is not visible.
func (f *Facts) changed(paths Paths) string {
	for _, file := range paths.cluster() {
		info, err := os.Stat(file.name)
		if err == nil && hostPath(paths.Root, file.name) == f.File && stampOf(info) != f.Stamp {
			return file.name + " has changed since origin-dns-dispatcher read it"
		}
	}
	return ""
}

// Bytes returns the facts as JSON with a final newline, for ParseFacts. The same facts give the
// same bytes.
func (f Facts) Bytes() []byte {
	text, err := json.MarshalIndent(factsText{factsVersion, f}, "", "  ")
	if err != nil {
		panic(err) // fails only for a year after 9999, which no file system has
	}
	return append(text, '\n')
}

// ParseFacts parses the output of Bytes. It ignores unknown keys. Another version is an error, as
// is a single value that the cluster's file could not have: damaged facts are not trusted in part.
func ParseFacts(data []byte) (Facts, error) {
	var f factsText
	if len(data) > maxFile {
		return Facts{}, fmt.Errorf("reading the facts file: longer than %d bytes", maxFile)
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return Facts{}, fmt.Errorf("reading the facts file: %w", err)
	}
	if f.Version != factsVersion {
		return Facts{}, fmt.Errorf("reading the facts file: version %d, expected %d", f.Version, factsVersion)
	}
	if err := f.check(); err != nil {
		return Facts{}, fmt.Errorf("reading the facts file: %w", err)
	}
	return f.Facts, nil
}

// hostPath returns a path as on the host: without the root if it is below it.
func hostPath(root, path string) string {
	if rel, err := filepath.Rel(root, path); root != "" && path != "" && err == nil {
		return filepath.Join("/", rel)
	}
	return path
}

// check validates the facts by the rules of their keys.
func (f *Facts) check() error {
	c := &factsChecker{}
	checkValue(c, "clusterDomain", asDomain, f.ClusterDomain)
	checkValues(c, "dnsIPs", asIP, f.DNSIPs...)
	checkValue(c, "nodeIP", asNodeIP, f.NodeIP)
	checkValue(c, "dnsBindAddress", asBind, f.DNSBindAddress)
	checkValues(c, "dnsNameservers", asServer, f.DNSNameservers...)
	checkValues(c, "podCIDRs", asPrefix, f.PodCIDRs...)
	checkValue(c, "nodeName", asNodeName, f.NodeName)
	for _, path := range []string{f.File, f.DNSRecursiveResolvConf, f.MasterKubeConfig, f.KubeletResolvConf} {
		checkValue(c, "a path", asPath, path)
		if path != "" && path != filepath.Join("/", path) {
			c.fail("a path", "an absolute one", path)
		}
	}
	for key, line := range f.Lines {
		c.place("lines", line, 1, key)
	}
	for _, fault := range f.Faults {
		c.place("faults", fault.Line, fault.Column, fault.Key, fault.Expected)
	}
	return errors.Join(c.errs...)
}

type factsChecker struct{ errs []error }

func (c *factsChecker) fail(key, expected, got string) {
	c.errs = append(c.errs, fmt.Errorf("%s: expected %s, got %s", key, expected, Quote(got)))
}

// checkValue checks a value against a syntax. The zero value, which the file omits, is valid.
func checkValue[T comparable](c *factsChecker, key string, as syntax[T], value T) {
	var zero T
	if value != zero {
		checkValues(c, key, as, value)
	}
}

func checkValues[T comparable](c *factsChecker, key string, as syntax[T], values ...T) {
	for _, value := range values {
		text := fmt.Sprint(value)
		if again, err := as.parse(text); err != nil || again != value {
			c.fail(key, as.expected, text)
		}
	}
}

// place checks values that appear in log lines.
func (c *factsChecker) place(key string, line, column int, texts ...string) {
	if line < 1 || column < 1 {
		c.fail(key, "a line and a column from 1", strconv.Itoa(line)+":"+strconv.Itoa(column))
	}
	for _, text := range texts {
		if len(text) > 4*maxQuoted || strings.ContainsFunc(text, unicode.IsControl) {
			c.fail(key, "one short line", text)
		}
	}
}
