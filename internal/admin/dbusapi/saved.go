package dbusapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// State is everything that was set over D-Bus. The zero State means that nothing was set. It is a
// value, so its slices are read-only.
type State struct {
	Rules     []dnsmasqconf.Rule
	RulesBy   Caller // who set them; zero if they were never set
	Options   dnsmasqconf.Options
	OptionsBy Caller // who last changed one of them; zero if they were never changed
}

// Caller identifies the sender of a call, as reported by the bus and the kernel at that time.
type Caller struct {
	Method string    `json:"method"`
	Name   string    `json:"name"`              // unique name on the bus
	Known  bool      `json:"known,omitempty"`   // whether UID is known; older releases also obeyed unknown callers
	PID    uint32    `json:"pid,omitempty"`     // process
	UID    uint32    `json:"uid,omitempty"`     // user of the process
	Comm   string    `json:"command,omitempty"` // name of the process; empty if it had ended or the kernel does not reveal it
	Unit   string    `json:"unit,omitempty"`    // systemd unit of the process; empty if systemd knows none
	At     time.Time `json:"at"`
}

// String returns text such as "SetServers by openshift (pid 812, uid 0, origin-node.service,
// :1.7)". It is empty for the zero Caller.
func (c Caller) String() string {
	if c.Name == "" {
		return ""
	}
	return c.Method + " by " + c.who()
}

// who describes the caller without the method. Names may be missing: with ProtectProc=
// (systemd.exec(5)), /proc hides other processes, and a process started by a shell has no unit of
// its own.
func (c Caller) who() string {
	if !c.Known {
		return c.Name
	}
	comm, words := c.Comm, []string{fmt.Sprintf("pid %d", c.PID), fmt.Sprintf("uid %d", c.UID), c.Unit, c.Name}
	if c.PID == 0 { // the bus cannot see the process, for example in another PID namespace
		words = words[1:]
	}
	if comm == "" {
		comm, words = words[0], words[1:]
	}
	return comm + " (" + strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), ", ") + ")"
}

// savedState is the JSON form of a State.
type savedState struct {
	Servers   []string            `json:"servers"` // in SetDomainServers format
	ServersBy Caller              `json:"serversBy"`
	Options   dnsmasqconf.Options `json:"options"`
	OptionsBy Caller              `json:"optionsBy"`
}

// maxSaved limits the file size for Load. maxRules rules with names of 254 bytes are well below it.
const maxSaved = 1 << 20

// Save writes the state to path atomically. If there is nothing to save, it removes the file.
func (s State) Save(path string) error {
	if s.Same(State{}) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing the saved D-Bus settings: %w", err)
		}
		return nil
	}
	saved := savedState{Servers: s.Servers(), ServersBy: s.RulesBy, Options: s.Options, OptionsBy: s.OptionsBy}
	data, err := json.MarshalIndent(saved, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		_, err = atomicfile.Writer{}.Write(path, append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("saving the D-Bus settings: %w", err)
	}
	return nil
}

// Servers returns the rules in the format of SetDomainServers.
func (s State) Servers() []string {
	words := []string{}
	for _, rule := range s.Rules {
		words = append(words, rule.String())
	}
	return words
}

// Same reports whether both states have the same rules and options. It ignores who set them and
// when.
func (s State) Same(other State) bool {
	return slices.Equal(s.Rules, other.Rules) && s.Options == other.Options
}

// Load reads the file that Save wrote. It returns the zero State if the file does not exist, and
// the zero State with an error if the file is invalid.
func Load(path string) (State, error) {
	data, _, err := atomicfile.Read(path, maxSaved+1)
	if errors.Is(err, os.ErrNotExist) {
		return State{}, nil
	}
	if err == nil && len(data) > maxSaved {
		err = fmt.Errorf("%d bytes", len(data))
	}
	var saved savedState
	if err == nil {
		err = json.Unmarshal(data, &saved)
	}
	var rules []dnsmasqconf.Rule
	if err == nil {
		rules, err = dnsmasqconf.ParseRules(saved.Servers)
	}
	if err != nil {
		return State{}, fmt.Errorf("reading the saved D-Bus settings from %s: %w", path, err)
	}
	return State{Rules: rules, RulesBy: saved.ServersBy, Options: saved.Options, OptionsBy: saved.OptionsBy}, nil
}
