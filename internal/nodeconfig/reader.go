package nodeconfig

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxKeys bounds a mapping, including the keys that it merges in.
const maxKeys = 1000

type reader struct {
	faults  *faultList
	lost    []string // paths of values that were dropped because of a fault; "" is the whole file
	strict  bool     // an unknown key is a fault
	sources map[string]Source
	blank   map[string]value // keys that are null, "" or []; nil if not needed
	dir     string           // directory for the file's relative paths
	root    string           // prefix for the file's absolute paths
}

func (r *reader) lose(path string) { r.lost = append(r.lost, path) }

// key is a known key of a mapping that is read into a T.
type key[T any] struct {
	name string
	// read reads the value into out. If it finds a fault, the caller discards its changes to out.
	read func(r *reader, v value, out *T)
	// keys are the known keys of the value if it is a mapping. read is then nil.
	keys []key[T]
}

// readKeys reads a mapping. The order of the keys is that of the table, not of the file, so that a
// later row can override an earlier one. A null value means that the key is not set. In files other
// than node-dns.yaml the same holds for "" and [], as in OpenShift and the kubelet.
func readKeys[T any](r *reader, v value, keys []key[T], out *T) {
	if v.node.Kind != yaml.MappingNode {
		r.fault(v, "a mapping of keys to values", describe(v.node))
		r.lose(v.path)
		return
	}
	entries := r.entries(v)
	for _, k := range keys {
		entry, ok := entries[k.name]
		delete(entries, k.name)
		if entry.repeated {
			r.faults.add(entry.key.Line, entry.key.Column, entry.path, "each key once", "a duplicate")
		}
		if !ok || isNull(entry.node) || !r.strict && isEmpty(entry.node) {
			if ok && r.blank != nil {
				r.blank[entry.path] = entry
			}
			continue
		}
		if k.keys != nil {
			readKeys(r, entry, k.keys, out)
			continue
		}
		before, faults := *out, r.faults.count
		k.read(r, entry, out)
		if r.faults.count > faults {
			*out = before
			r.lose(entry.path)
			continue
		}
		r.sources[entry.path] = Source{File: r.faults.file, Line: max(entry.key.Line, 1)}
	}
	if r.strict {
		addUnknown(r, entries, keys)
	}
}

// addUnknown reports unknown keys, with the nearest known key: most are misspelled.
func addUnknown[T any](r *reader, entries map[string]value, keys []key[T]) {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	var unknown []*value // pointers: sorting a separate struct type would make the hook 15 kB larger
	for _, entry := range entries {
		unknown = append(unknown, &entry)
	}
	slices.SortFunc(unknown, func(a, b *value) int {
		return cmp.Or(cmp.Compare(a.key.Line, b.key.Line), cmp.Compare(a.key.Column, b.key.Column))
	})
	for _, entry := range unknown {
		meant := Nearest(entry.key.Value, names)
		r.lose(meant)
		r.faults.add(entry.key.Line, entry.key.Column, entry.path,
			fmt.Sprintf("a known key (the nearest is %s)", meant), "an unknown one")
	}
}

// entries returns the values of a mapping by key. If a key occurs twice, the last one wins, as in
// the decoder of OpenShift 3. It is marked, because the intended one is unknown.
func (r *reader) entries(v value) map[string]value {
	entries := map[string]value{}
	r.collect(v, v.node, entries, map[*yaml.Node]bool{})
	return entries
}

// collect adds the keys of a mapping that are not yet in entries: its own, then those that it
// merges in with "<<". Each node is merged once, which ends cycles and keeps the cost of alias
// bombs linear.
func (r *reader) collect(v value, mapping *yaml.Node, entries map[string]value, seen map[*yaml.Node]bool) {
	seen[mapping] = true
	own := map[string]bool{}
	var merges []*yaml.Node
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, content := mapping.Content[i], mapping.Content[i+1]
		name := at(v.path, key).node
		if name.ShortTag() == "!!merge" {
			merges = append(merges, content)
			continue
		}
		if name.Kind != yaml.ScalarNode {
			if r.strict {
				r.faults.add(key.Line, key.Column, v.path, "a key that is a word", describe(name))
			}
			continue
		}
		_, known := entries[name.Value]
		if known && !own[name.Value] {
			continue
		}
		if !known && len(entries) >= maxKeys {
			r.fault(v, fmt.Sprintf("at most %d keys", maxKeys), "more")
			r.lose(v.path)
			return
		}
		entry := at(strings.TrimPrefix(v.path+"."+plain(name.Value), "."), content)
		entry.key, entry.repeated = name, own[name.Value]
		own[name.Value], entries[name.Value] = true, entry
	}
	for _, merge := range merges {
		r.merge(v, merge, entries, seen)
	}
}

// merge adds the value of a "<<" key: a mapping or a list of mappings
// (https://yaml.org/type/merge.html).
func (r *reader) merge(v value, node *yaml.Node, entries map[string]value, seen map[*yaml.Node]bool) {
	merge := at(strings.TrimPrefix(v.path+".<<", "."), node)
	if seen[merge.node] {
		return
	}
	switch merge.node.Kind {
	case yaml.MappingNode:
		r.collect(v, merge.node, entries, seen)
	case yaml.SequenceNode:
		seen[merge.node] = true
		for _, element := range merge.node.Content {
			r.merge(v, element, entries, seen)
		}
	default:
		r.fault(merge, "a mapping to merge in", describe(merge.node))
		r.lose(v.path)
	}
}

// path makes a path absolute. A relative one is relative to the directory of the file that names
// it.
func (r *reader) path(text string) string {
	if filepath.IsAbs(text) {
		return filepath.Join(r.root, text) // unchanged if root is ""
	}
	return filepath.Join(r.dir, text)
}
