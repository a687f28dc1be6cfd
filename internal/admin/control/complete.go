package control

import "context"

const completePath = "/v1/complete"

// Kinds of words that a daemon completes.
const (
	CompleteNamespace  = "namespace"
	CompletePod        = "pod" // of this node where only its pods are watched
	CompleteCachedName = "name"
)

// MaxCompletions bounds the words of an answer: a shell shows no more on a screen.
const MaxCompletions = 200

// CompleteQuestion asks for the words of a kind that begin with Prefix.
type CompleteQuestion struct {
	Kind      string `json:"kind"`
	Prefix    string `json:"prefix,omitempty"`
	Namespace string `json:"namespace,omitempty"` // of pods, which are NAMESPACE/NAME without one
}

// Completions are words for a shell, sorted.
type Completions struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"` // Completions
	Words      []string `json:"words"`
}

// FetchCompletions asks the daemon that listens on path.
func FetchCompletions(ctx context.Context, path string, question CompleteQuestion) (Completions, error) {
	return ask[Completions](ctx, path, completePath, question)
}
