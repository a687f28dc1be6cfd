package control

import (
	"fmt"
	"io"
	"strings"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// ConfigCheck is what was found out about the configuration without a daemon.
type ConfigCheck struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Faults     []ConfigFault `json:"faults"`
	Files      []ConfigFile  `json:"files"`
	Notes      []string      `json:"notes"` // what has no effect, or an odd one, and why
	// Kubeconfig is what the API server was asked with for rights; "": the API is not watched.
	Kubeconfig    string     `json:"kubeconfig,omitempty"`
	MissingRights []string   `json:"missingRights"` // as in the status: "list pods"
	Node          ConfigNode `json:"node"`
}

// ConfigFault is one fault of a file, or why that cannot be read.
type ConfigFault struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	What   string `json:"what"` // whole, with the place
}

// ConfigFile is one that counts.
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
	By    string `json:"overriddenBy,omitempty"` // the key and its place; "": it is in effect
}

// ConfigNode is what it comes to on this node.
type ConfigNode struct {
	Listen     []string `json:"listen"`
	Nameserver string   `json:"nameserver,omitempty"` // for /etc/resolv.conf; "": none
	Problems   []string `json:"problems,omitempty"`
}

// ConfigFaults is what is wrong in the files of the configuration, and no more.
type ConfigFaults struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Faults     []ConfigFault `json:"faults"`
}

// WriteText prints a line for each fault, and of good files none.
func (c ConfigFaults) WriteText(w io.Writer) error {
	p := &page{w: w}
	for _, fault := range termtext.All(c).Faults {
		p.line("%s", fault.What)
	}
	return p.err
}

// WriteText prints the faults, the notes, the missing rights, the good files with what they set, and what that comes to here.
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
		p.line("no configuration file: every default applies")
	}
	if len(c.Node.Listen) > 0 {
		resolvConf := "is to name " + c.Node.Nameserver
		if c.Node.Nameserver == "" {
			resolvConf = "keeps the site's nameservers, as it cannot name a port"
		}
		p.line("on this node: listens on %s; /etc/resolv.conf %s", strings.Join(c.Node.Listen, " "), resolvConf)
	}
	for _, problem := range c.Node.Problems {
		p.line("on this node: %s", problem)
	}
	return p.err
}

// settings are those in brackets; "": it has none.
func (f ConfigFile) settings() string {
	var words []string
	for _, s := range f.Settings {
		word := s.Key + " " + s.Value
		if s.By != "" {
			word = fmt.Sprintf("%s without effect: %s wins", s.Key, s.By)
		}
		words = append(words, word)
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}
