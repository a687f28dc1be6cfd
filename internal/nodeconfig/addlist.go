package nodeconfig

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// AddList returns node-dns.yaml with a key more, at its end: a list of values in one line, below a comment that says why it is
// there. All that was in the file stays, octet by octet. ok is false where that would not be read as the same settings and
// that key: the file has the key already, has a fault, is a mapping in braces, is indented, or is more than one document.
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

// keysOf are the keys at the top of a document, in their order. ok is false where it is no mapping.
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
