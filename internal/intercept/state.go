package intercept

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// StateFile returns the path of the helper's state file below root; "" means /. It exists while the
// helper runs, and after it was killed.
func StateFile(root string) string {
	return filepath.Join("/", root, "/run/node-dns-intercept/state.json")
}

// AliveFile returns the path of the file that the helper of a container touches several times a
// second.
func AliveFile(root string) string { return filepath.Join("/", root, "/run/node-dns-intercept/alive") }

// maxState bounds the size of the state file in bytes.
const maxState = 16 << 10

// State is the helper's state, as it last wrote it.
type State struct {
	PID int `json:"pid"`
	// Owned reports whether the kernel removes the rules when the helper ends, however it ends
	// (nf_tables' table flag "owner", since Linux 5.12).
	Owned     bool      `json:"owned"`
	Addresses []Address `json:"addresses"`
}

// Address is the state of one address.
type Address struct {
	Address netip.Addr `json:"address"`
	On      bool       `json:"on"`             // whether the rules are in the kernel
	Mode    Mode       `json:"mode,omitempty"` // empty if nothing was tried
	Since   time.Time  `json:"since"`          // when On or Mode changed last
	Why     string     `json:"why,omitempty"`  // why On is false; empty if it is true
}

// Mode is a way to bring queries to node-dns.
type Mode string

const (
	// Local: the address is local, and connection tracking skips its queries, so that kube-proxy's
	// rules do not translate them.
	Local Mode = "local"
	// Translated: the queries are translated to the node's address, because IPVS takes every packet
	// to the address once it is local, or because NodeLocal DNSCache may return.
	Translated Mode = "translated"
	// Standby is Translated while NodeLocal DNSCache has the address: its rules exempt the queries
	// from translation, so that it answers until it removes them.
	Standby Mode = "standby"
)

// Marshal returns the content of the state file.
func (s State) Marshal() ([]byte, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the state: %w", err)
	}
	return append(data, '\n'), nil
}

// ReadState reads a state file. It returns nil if the file does not exist.
func ReadState(path string) (*State, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the interception's state: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxState))
	if err != nil {
		return nil, fmt.Errorf("reading the interception's state: %w", err)
	}
	s := new(State)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Intercepts reports whether any of these addresses is intercepted. It is false for a nil State.
func (s *State) Intercepts(is func(a Address) bool) bool {
	return s != nil && slices.ContainsFunc(s.Addresses, func(a Address) bool { return a.On && is(a) })
}
