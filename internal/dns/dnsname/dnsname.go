// Package dnsname provides domain names as values: fully qualified, in lower case, with one
// canonical form.
//
// A name is what a query is for, not the server that it is sent to, so it is separate from
// nameserver. It does not know the wire format; packages that parse messages convert names
// themselves. A Name contains only letters, digits, '-', '_', '.' and '*', so it is safe to write
// into a configuration file.
package dnsname

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of RFC 1035 section 2.3.4. The total excludes the byte of the root label, so it is the
// length of the text with its final dot.
const (
	maxLabel = 63
	maxText  = 254
)

// Reasons why a string is not a Name. Errors from Parse match one of them.
var (
	ErrEmpty     = errors.New("empty name")
	ErrTooLong   = errors.New("name longer than 255 bytes")
	ErrLabel     = errors.New("label is not 1 to 63 bytes long")
	ErrCharacter = errors.New("character that is not a letter, digit, '-' or '_'")
)

// A Name is a fully qualified domain name in lower case. Names are comparable with ==, which is
// equality as defined by RFC 4343. The zero Name is invalid, and is not the root. Names are
// immutable.
type Name struct {
	text string // "", ".", or labels each followed by a dot
}

// Root returns the name of the DNS root.
func Root() Name { return Name{text: "."} }

// Parse parses a domain name with or without its final dot. The name is fully qualified in both
// cases; "." is the root. Parse accepts labels of 1 to 63 letters, digits, '-' and '_' in any order
// (RFC 2181 section 11 does not restrict hyphens), and the label "*" (RFC 4592). It does not
// support escapes or IDNA.
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

// Canonical returns the Name for a string that is known to be in the form that String returns. It
// does not validate; the caller must ensure that the string is valid.
func Canonical(text string) Name { return Name{text: text} }

// MustParse is like Parse but panics if the string is not a valid name.
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

// Relative returns the name without its final dot, as in search lists and dnsmasq files. It returns
// "." for the root and "" for the zero Name.
func (n Name) Relative() string {
	if n.IsRoot() {
		return n.text
	}
	return strings.TrimSuffix(n.text, ".")
}

// IsZero reports whether n is the zero Name.
func (n Name) IsZero() bool { return n.text == "" }

// IsRoot reports whether n is the DNS root.
func (n Name) IsRoot() bool { return n.text == "." }

// Labels returns the number of labels without the root label. It is 0 for the root and for the zero
// Name.
func (n Name) Labels() int {
	if n.IsRoot() {
		return 0
	}
	return strings.Count(n.text, ".")
}

// Within reports whether n is zone or below it (RFC 9499 section 7, "subdomain"). It is false if
// either is the zero Name.
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

// Parent returns the name without its first label. The parent of the root is the zero Name, which
// ends a loop up the tree:
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

// Lookup returns the entry of m for the Name with this text, which must be in lower case with its
// final dot. It does not allocate. Invalid text is not found.
func Lookup[V any](m map[Name]V, text []byte) (V, bool) {
	v, ok := m[Name{text: string(text)}]
	return v, ok
}

// Covers reports whether n is the name with this text or above it, like Within. It does not
// allocate.
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

// MarshalText returns the bytes of String. It is empty for the zero Name.
func (n Name) MarshalText() ([]byte, error) { return []byte(n.text), nil }

// UnmarshalText parses text like Parse. Empty text is the zero Name.
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
