package control

import (
	"fmt"
	"io"
	"strings"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// ConfigCheck is the result of checking the configuration without a daemon.
type ConfigCheck struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Faults     []ConfigFault `json:"faults"`
	Files      []ConfigFile  `json:"files"`
	Notes      []string      `json:"notes"` // settings with no effect or a surprising one, each with the reason
	// Kubeconfig is the file that was used to check access rights. It is empty if the API is not
	// watched.
	Kubeconfig    string     `json:"kubeconfig,omitempty"`
	MissingRights []string   `json:"missingRights"` // as in the status, for example "list pods"
	Node          ConfigNode `json:"node"`
}

// ConfigFault is one error in a file, or the reason why the file cannot be read.
type ConfigFault struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	What   string `json:"what"` // complete message, including the position
}

// ConfigFile is a configuration file in use.
type ConfigFile struct {
	Path     string          `json:"path"`
	OK       bool            `json:"ok"`
	Settings []ConfigSetting `json:"settings,omitempty"`
}

// ConfigSetting is a key that a file sets.
type ConfigSetting struct {
	Key   string `json:"key"`
	Line  int    `json:"line"`
	Value string `json:"value,omitempty"`
	By    string `json:"overriddenBy,omitempty"` // overriding key with its position; empty if this setting is in effect
}

// ConfigNode is the effective configuration on this node.
type ConfigNode struct {
	Listen     []string `json:"listen"`
	Nameserver string   `json:"nameserver,omitempty"` // nameserver for /etc/resolv.conf; empty if there is none
	Problems   []string `json:"problems,omitempty"`
}

// ConfigFaults lists only the errors in configuration files.
type ConfigFaults struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Faults     []ConfigFault `json:"faults"`
}

// WriteText prints one line per error. It prints nothing if the files are valid.
func (c ConfigFaults) WriteText(w io.Writer) error {
	p := &page{w: w}
	for _, fault := range termtext.All(c).Faults {
		p.line("%s", fault.What)
	}
	return p.err
}

// WriteText prints the errors, notes, missing rights, valid files with their settings, and the
// effective configuration.
func (c ConfigCheck) WriteText(w io.Writer) error {
	c = termtext.All(c)
	p := &page{w: w}
	for _, fault := range c.Faults {
		p.line("%s", fault.What)
	}
	for _, note := range c.Notes {
		p.line("%s", note)
	}
	for _, right := range c.MissingRights {
		p.line("%s: the Kubernetes API denies: %s", c.Kubeconfig, right)
	}
	for _, file := range c.Files {
		if file.OK {
			p.line("%s: ok%s", file.Path, file.settings())
		}
	}
	if len(c.Files) == 0 {
		p.line("no configuration file; all settings have their defaults")
	}
	if len(c.Node.Listen) > 0 {
		resolvConf := "will name " + c.Node.Nameserver
		if c.Node.Nameserver == "" {
			resolvConf = "keeps the site's nameservers, because it cannot contain a port"
		}
		p.line("on this node: listens on %s; /etc/resolv.conf %s", strings.Join(c.Node.Listen, " "), resolvConf)
	}
	for _, problem := range c.Node.Problems {
		p.line("on this node: %s", problem)
	}
	return p.err
}

// settings returns the file's settings in parentheses. It is empty if there are none.
func (f ConfigFile) settings() string {
	var words []string
	for _, s := range f.Settings {
		word := s.Key + " " + s.Value
		if s.By != "" {
			word = fmt.Sprintf("%s has no effect: %s overrides it", s.Key, s.By)
		}
		words = append(words, word)
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}
