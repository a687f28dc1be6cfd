package control

import "context"

const completePath = "/v1/complete"

// Kinds of words that the daemon can complete.
const (
	CompleteNamespace  = "namespace"
	CompletePod        = "pod" // only pods of this node if only those are watched
	CompleteCachedName = "name"
)

// MaxCompletions limits the words in an answer. A shell cannot show more on a screen.
const MaxCompletions = 200

// CompleteQuestion requests the words of a kind that begin with Prefix.
type CompleteQuestion struct {
	Kind      string `json:"kind"`
	Prefix    string `json:"prefix,omitempty"`
	Namespace string `json:"namespace,omitempty"` // for pods; if empty, words are NAMESPACE/NAME
}

// Completions are sorted words for shell completion.
type Completions struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"` // Completions
	Words      []string `json:"words"`
}

// FetchCompletions fetches completions from the daemon that listens on path.
func FetchCompletions(ctx context.Context, path string, question CompleteQuestion) (Completions, error) {
	return ask[Completions](ctx, path, completePath, question)
}
