package hostdns

import (
	"errors"
	"fmt"
	"os"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Handover is the copy of the Kubernetes API credentials for a daemon that may not read the
// originals.
type Handover struct {
	Text    []byte // content of the copy; nil if the daemon needs none
	Owner   int    // user ID that alone may read the copy; 0 if it holds no secret and everyone may
	Warning string // why the daemon gets no copy; "" if it does or needs none
}

// lookAtHandover reads the credentials if the daemon may not. This needs root and a valid
// configuration. Otherwise, or if a file cannot be read this time, Handover stays nil, which keeps
// the current copy.
func (s *State) lookAtHandover(paths nodeconfig.Paths) {
	if os.Geteuid() != 0 || s.ConfigErr != nil || s.Config.FactsFile != "" {
		return
	}
	s.Kubeconfig = ReadFile(s.Paths.Root, s.Paths.Kubeconfig)
	handover, err := readHandover(s.Paths.Root, paths, s.Config)
	if err != nil {
		s.problem("%v", err)
		return
	}
	s.Handover = handover
}

// readHandover returns nil if the current copy is to stay.
func readHandover(root string, paths nodeconfig.Paths, config nodeconfig.Config) (*Handover, error) {
	kubeconfig := config.KubeconfigFile(paths.Kubeconfig)
	if kubeconfig == "" {
		return &Handover{}, nil
	}
	if _, err := os.Stat(kubeconfig); errors.Is(err, os.ErrNotExist) {
		if kubeconfig == paths.Kubeconfig {
			return &Handover{}, nil
		}
		return nil, nil // it is missing; the daemon waits for it
	}
	files := nodeconfig.KubeconfigFiles(kubeconfig)
	for _, path := range files {
		if _, err := os.Stat(path); err != nil { // it may be missing for a moment while it is replaced
			return nil, fmt.Errorf("reading the files that the kubeconfig %s names: %w", kubeconfig, err)
		}
	}
	user, group, ok := daemonAccount(root)
	readable, err := readableBy(user, group, files)
	if err != nil {
		return nil, fmt.Errorf("checking which files the daemon may read: %w", err)
	}
	if readable {
		return &Handover{}, nil
	}
	h, err := nodeconfig.ReadHandover(paths, kubeconfig)
	if err != nil {
		return nil, err
	}
	if !ok && h.Refused == "" {
		h.Refused, h.Text = "there is no user node-dns with a group of that name, and only that user may read it", nil
	}
	if h.Refused != "" {
		return &Handover{Text: h.Bytes(), Warning: kubeconfig + " is not copied for the daemon, which may not read it: " + h.Refused}, nil
	}
	return &Handover{Text: h.Bytes(), Owner: user}, nil
}

// handoverSteps write the copy for the daemon's user alone, or remove it if it is no longer needed.
func handoverSteps(s *State) []Step {
	switch {
	case s.Handover == nil || s.Kubeconfig.Err != nil:
		return nil
	case s.Handover.Text == nil:
		return forgetHandover(s)
	}
	step := Step{Path: s.Paths.Kubeconfig, Action: WriteFile, Data: s.Handover.Text, Mode: 0o644, Before: s.Kubeconfig}
	if s.Handover.Owner != 0 {
		step.Mode, step.Owner, step.Secret = 0o400, s.Handover.Owner, true
	}
	if f := s.Kubeconfig; f.is(step.Data) && f.Mode == step.Mode && f.Owner == step.Owner {
		return nil
	}
	return []Step{step}
}

// forgetHandover removes the copy, because it would become stale.
func forgetHandover(s *State) []Step {
	if !s.Kubeconfig.Exists {
		return nil
	}
	return []Step{{Path: s.Paths.Kubeconfig, Action: Remove, Before: s.Kubeconfig, Secret: true}}
}
