// Package resolvconf is resolv.conf(5) as a value: what glibc reads in it, and
// edits that keep every line they are not about.
//
// It is apart from hostdns, which decides what the file must say, and from
// upstream, which keeps captured nameservers of every kind: a resolv.conf names
// addresses only, always at port 53.
package resolvconf

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// The keywords that are understood; other lines are kept as they are.
const (
	keyNameserver = "nameserver"
	keySearch     = "search"
	keyDomain     = "domain"
	keyOptions    = "options"
)

// A File is the content of a resolv.conf. The zero File is an empty one. It is
// not safe for concurrent use while it is edited.
type File struct {
	lines []string // without line ends
}

// Parse reads a resolv.conf. It never fails: as in glibc a line that is not
// understood has no meaning, and it is kept. Line ends become LF; carriage
// returns before them are dropped, although glibc would take them as part of the
// line, because a file with CRLF is meant to be read.
func Parse(data []byte) *File {
	f := &File{}
	for line := range bytes.Lines(data) {
		f.lines = append(f.lines, strings.TrimRight(strings.TrimSuffix(string(line), "\n"), "\r"))
	}
	return f
}

// Bytes returns the file's text. Every line ends in LF; an empty file is empty.
// Parse(f.Bytes()).Bytes() is f.Bytes().
func (f *File) Bytes() []byte {
	var text bytes.Buffer
	for _, line := range f.lines {
		text.WriteString(line)
		text.WriteByte('\n')
	}
	return text.Bytes()
}

// Clone returns a copy to edit.
func (f *File) Clone() *File { return &File{lines: slices.Clone(f.lines)} }

// Nameservers returns the valid nameserver addresses in their order, however
// many (glibc uses the first three). The address ends at the first blank or tab,
// so text after it is no part of it (res_init.c). Zone ids of link-local
// addresses are kept; nameserver.ParseAddr says which form an address has.
func (f *File) Nameservers() []netip.Addr {
	addrs, _ := f.nameservers()
	return addrs
}

// Invalid returns the words that stand where a nameserver's address should and
// are none, in their order and as they are: they may hold any byte but blank,
// tab and line feed.
func (f *File) Invalid() []string {
	_, invalid := f.nameservers()
	return invalid
}

func (f *File) nameservers() (addrs []netip.Addr, invalid []string) {
	for _, line := range f.lines {
		words, ok := directive(line, keyNameserver)
		if !ok || len(words) == 0 {
			continue
		}
		addr, err := nameserver.ParseAddr(words[0])
		if err != nil {
			invalid = append(invalid, words[0])
			continue
		}
		addrs = append(addrs, addr)
	}
	return addrs, invalid
}

// Search returns the search list that applies: that of the last search or
// domain line, where a domain is a list of one name. Lines without a name do not
// count. Upper and lower case are kept, final dots cut; the root (".", how
// systemd-resolved writes an empty list) and names that are there already in any
// case are left out. The number is not limited (glibc before 2.26 used six).
func (f *File) Search() []string {
	return cleanSearch(f.Written())
}

// Written returns the words of the last search or domain line that has such, as
// they stand there: a C library asks for a domain that is there twice twice.
func (f *File) Written() []string {
	var words []string
	for _, line := range f.lines {
		if found := searchWords(line); len(found) > 0 {
			words = found
		}
	}
	return words
}

// SearchLine returns the names of the last search line without their final dots,
// the root left out: what the kubelet reads, which knows no domain line (its
// parseResolvConf).
func (f *File) SearchLine() []string {
	var words []string
	for _, line := range f.lines {
		if found, ok := directive(line, keySearch); ok {
			words = found
		}
	}
	return cleanSearch(words)
}

// searchWords returns the names that a search or domain line puts up.
func searchWords(line string) []string {
	if words, ok := directive(line, keySearch); ok {
		return words
	}
	words, _ := directive(line, keyDomain)
	return words[:min(len(words), 1)]
}

func cleanSearch(words []string) []string {
	var names []string
	for _, word := range words {
		name := strings.TrimRight(word, ".")
		same := func(have string) bool { return asciiLower(have) == asciiLower(name) }
		if name != "" && !slices.ContainsFunc(names, same) {
			names = append(names, name)
		}
	}
	return names
}

// asciiLower leaves bytes above 127 alone: names compare by RFC 4343, which
// knows the case of ASCII only.
func asciiLower(s string) string {
	lower := []byte(s)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return string(lower)
}

// Options returns the words of all options lines in their order.
func (f *File) Options() []string {
	var options []string
	for _, line := range f.lines {
		words, _ := directive(line, keyOptions)
		options = append(options, words...)
	}
	return options
}

// HasLine reports whether this is exactly one of the lines; line is without a
// line end.
func (f *File) HasLine(line string) bool { return slices.Contains(f.lines, line) }

// directive returns the words after keyword, and whether line is such a line.
// The keyword stands at the very start and ends at a blank, a tab (MATCH in
// glibc's res_init.c) or the end of the line.
func directive(line, keyword string) (words []string, ok bool) {
	rest, ok := strings.CutPrefix(line, keyword)
	if !ok || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return nil, false
	}
	return strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '\t' }), true
}
