package view

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/cache"
)

// completeTime limits a walk over a large cache, because a shell waits for it.
const completeTime = 100 * time.Millisecond

// Complete returns words for shell completion.
func (v *View) Complete(ctx context.Context, question control.CompleteQuestion) (control.Completions, error) {
	var words iter.Seq[string]
	switch question.Kind {
	case control.CompleteNamespace:
		words = v.namespaces()
	case control.CompletePod:
		words = v.podsOf(question.Namespace)
	case control.CompleteCachedName:
		ctx, cancel := context.WithTimeout(ctx, completeTime)
		defer cancel()
		words = cachedNames(ctx, v.resolver.Cache())
	default:
		return control.Completions{}, control.MistakeError{Why: fmt.Sprintf("unknown completion kind %q", question.Kind)}
	}
	return control.Completions{APIVersion: control.APIVersion, Kind: "Completions", Words: beginning(words, question.Prefix)}, nil
}

// beginning returns the first words that begin with prefix, sorted and without duplicates.
func beginning(words iter.Seq[string], prefix string) []string {
	found := map[string]bool{}
	for word := range words {
		if strings.HasPrefix(word, prefix) {
			found[word] = true
		}
		if len(found) == control.MaxCompletions {
			break
		}
	}
	return append([]string{}, slices.Sorted(maps.Keys(found))...)
}

func (v *View) namespaces() iter.Seq[string] {
	if known := v.resolver.Known(); known != nil {
		return known.Namespaces()
	}
	return func(func(string) bool) {}
}

// podsOf returns the pods of a namespace, or those of all namespaces as NAMESPACE/NAME if namespace
// is empty.
func (v *View) podsOf(namespace string) iter.Seq[string] {
	return func(yield func(string) bool) {
		known := v.resolver.Known()
		if known == nil {
			return
		}
		for pod := range known.Pods() {
			word := pod.Namespace + "/" + pod.Name
			if namespace != "" {
				word = pod.Name
			}
			if (namespace == "" || pod.Namespace == namespace) && !yield(word) {
				return
			}
		}
	}
}

// cachedNames returns the names of positive answers, without the final dot, until ctx ends.
func cachedNames(ctx context.Context, c *cache.Cache) iter.Seq[string] {
	return func(yield func(string) bool) {
		c.Walk(func(r cache.Remembered) bool {
			if ctx.Err() != nil {
				return false
			}
			name := strings.TrimSuffix(strings.ToLower(r.QName), ".")
			return r.IsNegative || name == "" || yield(name)
		})
	}
}
