// Package dnsname is a domain name as a value: fully qualified, in lower case,
// with the question of the final dot settled once.
//
// It is apart from nameserver because a name says what is asked, never whom to
// ask, and it knows no wire format: the packages that parse messages convert at
// their edge. A Name is safe to write into a configuration file: it holds
// letters, digits, '-', '_', '.' and '*' only.
package dnsname

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of RFC 1035 section 2.3.4, the total without the root label's octet:
// as many bytes as the textual form with its final dot has.
const (
	maxLabel = 63
	maxText  = 254
)

// The ways a text is no Name; errors from Parse match one of them.
var (
	ErrEmpty     = errors.New("empty name")
	ErrTooLong   = errors.New("name longer than 255 octets")
	ErrLabel     = errors.New("label is not 1 to 63 octets long")
	ErrCharacter = errors.New("character that is not a letter, digit, '-' or '_'")
)

// A Name is a fully qualified domain name in lower case. Names are comparable
// with ==, which is equality as RFC 4343 defines it. The zero Name is no name,
// and is not the root. Names are immutable.
type Name struct {
	text string // "", ".", or labels each followed by a dot
}

// Root returns the name of the DNS root.
func Root() Name { return Name{text: "."} }

// Parse reads a domain name with or without its final dot; "." is the root. The
// name is taken as fully qualified in both forms. It accepts labels of 1 to 63
// letters, digits, '-' and '_' in any order (RFC 2181 section 11 puts no rule on
// hyphens), and the label "*" (RFC 4592); it has no escapes and no IDNA.
func Parse(s string) (Name, error) {
	if s == "" {
		return Name{}, ErrEmpty
	}
	if s == "." {
		return Root(), nil
	}
	body := strings.TrimSuffix(s, ".")
	if len(body)+1 > maxText {
		return Name{}, fmt.Errorf("parsing name %q...: %w", body[:maxLabel], ErrTooLong)
	}
	if err := checkLabels(body); err != nil {
		return Name{}, fmt.Errorf("parsing name %q: %w", s, err)
	}
	if len(body) == len(s) {
		s += "."
	}
	return Name{text: strings.ToLower(s)}, nil
}

// Canonical is Parse for a text that is known to be a name as String returns it: it looks at none of it, and who calls it answers for
// what a Name is.
func Canonical(text string) Name { return Name{text: text} }

// MustParse is Parse for a text that is known to be a name; it panics when it is
// none.
func MustParse(s string) Name {
	name, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return name
}

func checkLabels(body string) error {
	start := 0
	for i := 0; i <= len(body); i++ {
		if i < len(body) && body[i] != '.' {
			continue
		}
		if err := checkLabel(body[start:i]); err != nil {
			return err
		}
		start = i + 1
	}
	return nil
}

func checkLabel(label string) error {
	if len(label) == 0 || len(label) > maxLabel {
		return ErrLabel
	}
	if label == "*" {
		return nil
	}
	for i := 0; i < len(label); i++ {
		c := label[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return ErrCharacter
		}
	}
	return nil
}

// String returns the name with its final dot, and "" for the zero Name.
func (n Name) String() string { return n.text }

// Relative returns the name without its final dot, as search lists and dnsmasq
// write it; "." for the root, and "" for the zero Name.
func (n Name) Relative() string {
	if n.IsRoot() {
		return n.text
	}
	return strings.TrimSuffix(n.text, ".")
}

// IsZero reports whether n is no name at all.
func (n Name) IsZero() bool { return n.text == "" }

// IsRoot reports whether n is the DNS root.
func (n Name) IsRoot() bool { return n.text == "." }

// Labels returns the number of labels, the root label not counted: 0 for the
// root and for the zero Name.
func (n Name) Labels() int {
	if n.IsRoot() {
		return 0
	}
	return strings.Count(n.text, ".")
}

// Within reports whether n is zone or below it (RFC 9499 section 7,
// "subdomain"). The zero Name is within nothing, and nothing is within it.
func (n Name) Within(zone Name) bool {
	if n.IsZero() || zone.IsZero() {
		return false
	}
	if zone.IsRoot() {
		return true
	}
	above, found := strings.CutSuffix(n.text, zone.text)
	return found && (above == "" || above[len(above)-1] == '.')
}

// Parent returns the name without its first label. The parent of the root is
// the zero Name, so that walking up ends:
//
//	for z := name; !z.IsZero(); z = z.Parent() { … }
//
// It does not allocate.
func (n Name) Parent() Name {
	if n.IsZero() || n.IsRoot() {
		return Name{}
	}
	above := n.text[strings.IndexByte(n.text, '.')+1:]
	if above == "" {
		return Root()
	}
	return Name{text: above}
}

// Lookup finds in m the Name that has this text, in lower case and with its final dot. It does not allocate, nor check that
// it is one: what is no Name is not found.
func Lookup[V any](m map[Name]V, text []byte) (V, bool) {
	v, ok := m[Name{text: string(text)}]
	return v, ok
}

// Covers is Within for the text of a name: whether zone is it, or above it. It does not allocate.
func (n Name) Covers(text []byte) bool {
	above := len(text) - len(n.text)
	switch {
	case n.IsZero() || above < 0 || len(text) == 0:
		return false
	case n.IsRoot():
		return true
	}
	return string(text[above:]) == n.text && (above == 0 || text[above-1] == '.')
}

// MarshalText returns String as bytes; the zero Name is empty text.
func (n Name) MarshalText() ([]byte, error) { return []byte(n.text), nil }

// UnmarshalText reads what Parse reads; empty text is the zero Name.
func (n *Name) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*n = Name{}
		return nil
	}
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*n = parsed
	return nil
}
