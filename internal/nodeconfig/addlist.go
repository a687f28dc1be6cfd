package nodeconfig

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// AddList returns node-dns.yaml with an additional key at its end: a list of values on one line,
// below a comment with the reason. The existing bytes of the file stay unchanged. ok is false if
// the result would not parse as the same settings plus that key: the file already has the key, is
// invalid, is a mapping in braces, is indented, or has several documents.
func AddList(data []byte, why, key string, values []string) (added []byte, ok bool) {
	var words []string
	for _, value := range values {
		if strings.ContainsAny(value, ":#") { // an IPv6 address may begin or end with a colon
			value = `"` + value + `"`
		}
		words = append(words, value)
	}
	added = bytes.Clone(data)
	if len(added) > 0 && !bytes.HasSuffix(added, []byte("\n")) {
		added = append(added, '\n')
	}
	added = fmt.Appendf(added, "\n# %s\n%s: [%s]\n", why, key, strings.Join(words, ", "))
	before, ok := keysOf(data)
	after, parses := keysOf(added)
	return added, ok && parses && len(after) == len(before)+1 && after[len(before)] == key && !slices.Contains(before, key)
}

// keysOf returns the top-level keys of a document, in order. ok is false if it is not a mapping.
func keysOf(data []byte) (keys []string, ok bool) {
	var faults faultList
	root := readDocument(data, &faults)
	switch {
	case len(faults.faults) > 0 || root != nil && root.Kind != yaml.MappingNode:
		return nil, false
	case root == nil:
		return nil, true
	}
	for i := 0; i < len(root.Content); i += 2 {
		keys = append(keys, root.Content[i].Value)
	}
	return keys, true
}
