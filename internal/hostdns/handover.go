package hostdns

import (
	"errors"
	"fmt"
	"os"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Handover is what a look found of the credentials for the Kubernetes API that the daemon may not read itself.
type Handover struct {
	Text    []byte // what its file must hold; nil: none is needed
	Owner   int    // the user who alone may read that; 0: everybody may, as there is no secret in it
	Warning string // why the daemon gets none, "" when it does or needs none
}

// lookAtHandover reads the credentials where the daemon may not. Only root can tell, and only where the configuration is
// known: otherwise nil, and what was handed over stays. So it does where something could not be read this time.
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

// readHandover returns nil where what was handed over is to stay.
func readHandover(root string, paths nodeconfig.Paths, config nodeconfig.Config) (*Handover, error) {
	kubeconfig := config.KubeconfigFile(paths.Kubeconfig)
	if kubeconfig == "" {
		return &Handover{}, nil
	}
	if _, err := os.Stat(kubeconfig); errors.Is(err, os.ErrNotExist) {
		if kubeconfig == paths.Kubeconfig {
			return &Handover{}, nil
		}
		return nil, nil // it is missed, and waited for
	}
	files := nodeconfig.KubeconfigFiles(kubeconfig)
	for _, path := range files {
		if _, err := os.Stat(path); err != nil { // for a moment, while it is replaced
			return nil, fmt.Errorf("reading what the kubeconfig %s names: %w", kubeconfig, err)
		}
	}
	user, group, ok := daemonAccount(root)
	readable, err := readableBy(user, group, files)
	if err != nil {
		return nil, fmt.Errorf("asking what the daemon may read: %w", err)
	}
	if readable {
		return &Handover{}, nil
	}
	h, err := nodeconfig.ReadHandover(paths, kubeconfig)
	if err != nil {
		return nil, err
	}
	if !ok && h.Refused == "" {
		h.Refused, h.Text = "there is no user node-dns with a group of that name, who alone would be given it", nil
	}
	if h.Refused != "" {
		return &Handover{Text: h.Bytes(), Warning: kubeconfig + " is not handed over to the daemon, who may not read it: " + h.Refused}, nil
	}
	return &Handover{Text: h.Bytes(), Owner: user}, nil
}

// handoverSteps write what is handed over, for the daemon's user alone, and take away what is not needed any more.
func handoverSteps(s State) []Step {
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

// forgetHandover leaves no credentials behind where nobody keeps them up to date.
func forgetHandover(s State) []Step {
	if !s.Kubeconfig.Exists {
		return nil
	}
	return []Step{{Path: s.Paths.Kubeconfig, Action: Remove, Before: s.Kubeconfig, Secret: true}}
}
