package nodeconfig

import (
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// value is a node of the document, with the path of its key and its place. For an alias, that is
// the place of the alias.
type value struct {
	path         string
	node         *yaml.Node // never an alias
	line, column int
	key          *yaml.Node // nil for an element of a list and for the document
	repeated     bool       // the key occurred before in the same mapping
}

func at(path string, node *yaml.Node) value {
	v := value{path: path, node: node, line: node.Line, column: node.Column}
	if node.Kind == yaml.AliasNode {
		v.node = node.Alias // an alias cannot refer to another alias
	}
	return v
}

func (r *reader) fault(v value, expected, got string) {
	r.faults.add(v.line, v.column, v.path, expected, got)
}

func (r *reader) text(v value, expected string) (string, bool) {
	if v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!str" {
		return v.node.Value, true
	}
	r.fault(v, expected, describe(v.node))
	return "", false
}

// list returns the elements of a list. The limit is for aliases: with them a small file can have a
// long list with large elements.
func (r *reader) list(v value, most int, expected string) ([]value, bool) {
	if v.node.Kind != yaml.SequenceNode {
		r.fault(v, expected, describe(v.node))
		return nil, false
	}
	if n := len(v.node.Content); n > most {
		r.fault(v, fmt.Sprintf("at most %d entries", most), strconv.Itoa(n))
		return nil, false
	}
	elements := make([]value, len(v.node.Content))
	for i, node := range v.node.Content {
		elements[i] = at(fmt.Sprintf("%s[%d]", v.path, i), node)
	}
	return elements, true
}

func one[T any](r *reader, v value, as syntax[T]) (T, bool) {
	text, ok := r.text(v, as.expected)
	if !ok {
		var none T
		return none, false
	}
	return fromText(r, v, text, as)
}

func fromText[T any](r *reader, v value, text string, as syntax[T]) (T, bool) {
	result, err := as.parse(text)
	if err == nil {
		return result, true
	}
	got := Quote(text)
	if why, ok := err.(reason); ok {
		got += " (" + string(why) + ")"
	}
	r.fault(v, as.expected, got)
	return result, false
}

// many parses a list of strings. It returns nothing if an element is faulty.
func many[T any](r *reader, v value, most int, as syntax[T]) ([]T, bool) {
	elements, ok := r.list(v, most, "a list, each entry "+as.expected)
	if !ok {
		return nil, false
	}
	results := make([]T, 0, len(elements))
	for _, element := range elements {
		result, good := one(r, element, as)
		ok = ok && good
		results = append(results, result)
	}
	return results, ok
}

// orList ends the expectation of oneOrMany.
const orList = ", or a list of these"

// oneOrMany parses a string, or a list of strings. After a fault some values are zero or missing.
func oneOrMany[T any](r *reader, v value, most int, as syntax[T]) []T {
	parts := []value{v}
	if v.node.Kind != yaml.ScalarNode {
		parts, _ = r.list(v, most, as.expected+orList)
	}
	var results []T
	for _, part := range parts {
		result, _ := one(r, part, as)
		results = append(results, result)
	}
	return results
}

// flagValues parses the values of a command-line flag in OpenShift's *Arguments maps: a list of
// strings, each of which may have several comma-separated values (pflag's StringSlice).
func flagValues[T any](r *reader, v value, most int, as syntax[T]) ([]T, bool) {
	elements, ok := r.list(v, most, "a list of strings")
	if !ok {
		return nil, false
	}
	var results []T
	for _, element := range elements {
		text, good := r.text(element, as.expected)
		ok = ok && good
		if !good {
			continue
		}
		for word := range strings.SplitSeq(text, ",") {
			if len(results) == most {
				r.fault(v, fmt.Sprintf("at most %d entries", most), "more")
				return nil, false
			}
			result, good := fromText(r, element, strings.TrimSpace(word), as)
			ok = ok && good
			results = append(results, result)
		}
	}
	return results, ok
}

func (r *reader) number(v value, least, most int) int {
	expected := fmt.Sprintf("a number from %d to %d", least, most)
	var n int
	if v.node.ShortTag() != "!!int" || v.node.Decode(&n) != nil || n < least || n > most {
		r.fault(v, expected, describe(v.node))
		return 0
	}
	return n
}

// boolean parses true or false and, like yaml.v3 for YAML 1.1, an unquoted yes, no, on or off.
func (r *reader) boolean(v value) bool {
	var b bool
	if v.node.Kind != yaml.ScalarNode || v.node.Decode(&b) != nil {
		r.fault(v, "true or false", describe(v.node))
	}
	return b
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// isEmpty reports whether node is "", [] or {}.
func isEmpty(node *yaml.Node) bool {
	if node.Kind == yaml.ScalarNode {
		return node.ShortTag() == "!!str" && node.Value == ""
	}
	return len(node.Content) == 0
}

// describe returns what a node is, for the end of a fault.
func describe(node *yaml.Node) string {
	if node.Kind == yaml.MappingNode {
		return "a mapping"
	}
	if node.Kind == yaml.SequenceNode {
		return "a list"
	}
	switch node.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!str":
		return Quote(node.Value)
	case "!!int", "!!float":
		return "the number " + plain(node.Value)
	case "!!bool":
		return "the boolean " + plain(node.Value)
	}
	return fmt.Sprintf("%s with the tag %s", Quote(node.Value), Quote(node.ShortTag()))
}

// maxQuoted bounds quoted text of a file, in bytes.
const maxQuoted = 64

// Quote makes text safe for a log line or a terminal.
func Quote(text string) string {
	if len(text) > maxQuoted {
		return strconv.Quote(strings.ToValidUTF8(text[:maxQuoted], "")) + "…"
	}
	return strconv.Quote(text)
}

// plain omits the quotes if text is a bare word.
func plain(text string) string {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-+_./", c) >= 0:
		default:
			return Quote(text)
		}
	}
	if text == "" || len(text) > maxQuoted {
		return Quote(text)
	}
	return text
}
