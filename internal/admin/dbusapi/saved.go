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

// State is all that was set over D-Bus. Its zero value is that nothing was. It is a value: treat its slices as read-only.
type State struct {
	Rules     []dnsmasqconf.Rule
	RulesBy   Caller // who set them; zero: nobody ever
	Options   dnsmasqconf.Options
	OptionsBy Caller // who changed one of them last; zero: nobody ever
}

// Caller is who called, as the bus and the kernel said at that time.
type Caller struct {
	Method string    `json:"method"`
	Name   string    `json:"name"`              // the unique name on the bus
	Known  bool      `json:"known,omitempty"`   // the user is; older releases obeyed others, too
	PID    uint32    `json:"pid,omitempty"`     // of the process
	UID    uint32    `json:"uid,omitempty"`     // its user
	Comm   string    `json:"command,omitempty"` // its name; "" when it had ended, or the kernel does not tell us
	Unit   string    `json:"unit,omitempty"`    // the systemd unit that it belongs to; "" when systemd does not know it
	At     time.Time `json:"at"`
}

// String is "SetServers by openshift (pid 812, uid 0, origin-node.service, :1.7)", and "" for nobody.
func (c Caller) String() string {
	if c.Name == "" {
		return ""
	}
	return c.Method + " by " + c.who()
}

// who is the caller without what it called. Its names may be empty: under ProtectProc= of systemd.exec(5) /proc tells nothing
// of others' processes, and what a shell starts belongs to no unit of its own.
func (c Caller) who() string {
	if !c.Known {
		return c.Name
	}
	comm, words := c.Comm, []string{fmt.Sprintf("pid %d", c.PID), fmt.Sprintf("uid %d", c.UID), c.Unit, c.Name}
	if c.PID == 0 { // of a process that the bus cannot see, as in another PID namespace
		words = words[1:]
	}
	if comm == "" {
		comm, words = words[0], words[1:]
	}
	return comm + " (" + strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), ", ") + ")"
}

// savedState is the file's form of a State.
type savedState struct {
	Servers   []string            `json:"servers"` // as SetDomainServers takes them
	ServersBy Caller              `json:"serversBy"`
	Options   dnsmasqconf.Options `json:"options"`
	OptionsBy Caller              `json:"optionsBy"`
}

// maxSaved bounds what Load reads; maxRules rules of names of 254 octets are well below it.
const maxSaved = 1 << 20

// Save writes the state to path, whole, or removes the file where there is nothing to keep.
func (s State) Save(path string) error {
	if s.Same(State{}) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("forgetting what was set over D-Bus: %w", err)
		}
		return nil
	}
	saved := savedState{Servers: []string{}, ServersBy: s.RulesBy, Options: s.Options, OptionsBy: s.OptionsBy}
	for _, rule := range s.Rules {
		saved.Servers = append(saved.Servers, rule.String())
	}
	data, err := json.MarshalIndent(saved, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		_, err = atomicfile.Writer{}.Write(path, append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("keeping what was set over D-Bus: %w", err)
	}
	return nil
}

// Same reports whether the same names go the same ways; who said so, and when, counts for nothing.
func (s State) Same(other State) bool {
	return slices.Equal(s.Rules, other.Rules) && s.Options == other.Options
}

// Load reads what Save wrote. Without a file it is the zero State; with one that has faults too, beside the error.
func Load(path string) (State, error) {
	data, err := os.ReadFile(path)
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
		return State{}, fmt.Errorf("reading what was set over D-Bus from %s: %w", path, err)
	}
	return State{Rules: rules, RulesBy: saved.ServersBy, Options: saved.Options, OptionsBy: saved.OptionsBy}, nil
}
