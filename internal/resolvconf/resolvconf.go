// Package resolvconf parses resolv.conf(5) as glibc does, and edits it. An edit keeps all lines
// that it does not concern. The package also shows what a resolv.conf does to a name: which names a
// C library queries, in which order and how often, and which resolv.conf a kubelet gives to a pod.
// It sends no queries: the caller supplies the answers.
//
// It is separate from hostdns, which decides what the file must contain, and from upstream, which
// keeps captured nameservers of every kind: a resolv.conf can only name addresses, always at port
// 53.
package resolvconf

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// The keywords that have a meaning here. Other lines are kept unchanged.
const (
	keyNameserver = "nameserver"
	keySearch     = "search"
	keyDomain     = "domain"
	keyOptions    = "options"
)

// A File is the content of a resolv.conf. The zero File is empty. It is not safe for concurrent use
// while it is edited.
type File struct {
	lines []string // without line ends
}

// Parse parses a resolv.conf. It never fails: as in glibc, an unknown line has no meaning, and it
// is kept. Line ends become LF. Carriage returns before them are dropped, because the author of a
// file with CRLF wants it to work. glibc would take them as part of the line.
func Parse(data []byte) *File {
	f := &File{}
	for line := range bytes.Lines(data) {
		f.lines = append(f.lines, strings.TrimRight(strings.TrimSuffix(string(line), "\n"), "\r"))
	}
	return f
}

// Bytes returns the file's text. Every line ends in LF, and an empty file is empty.
// Parse(f.Bytes()).Bytes() equals f.Bytes().
func (f *File) Bytes() []byte {
	var text bytes.Buffer
	for _, line := range f.lines {
		text.WriteString(line)
		text.WriteByte('\n')
	}
	return text.Bytes()
}

// Nameservers returns all valid nameserver addresses in order (glibc uses the first three). An
// address ends at the first blank or tab, so text after it is ignored (res_init.c). Link-local
// addresses keep their zone IDs. nameserver.ParseAddr defines the form of an address.
func (f *File) Nameservers() []netip.Addr {
	addrs, _ := f.nameservers()
	return addrs
}

// Invalid returns the words in place of a nameserver's address that are invalid, in order and
// unchanged. They may contain any byte except blank, tab and line feed.
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

// Search returns the effective search list: that of the last search or domain line, where a domain
// is a list of one name. Lines without a name do not count. Upper and lower case are kept, and
// final dots are removed. The root (".", which systemd-resolved writes for an empty list) and
// duplicates are left out, ignoring case. The number is not limited (glibc before 2.26 used six).
func (f *File) Search() []string {
	return cleanSearch(f.Written())
}

// Written returns the words of the last search or domain line that has any, unchanged: a C library
// queries a duplicate domain twice.
func (f *File) Written() []string {
	var words []string
	for _, line := range f.lines {
		if found := searchWords(line); len(found) > 0 {
			words = found
		}
	}
	return words
}

// SearchLine returns the names of the last search line without final dots and without the root. The
// kubelet reads only that line and ignores domain lines (its parseResolvConf).
func (f *File) SearchLine() []string {
	var words []string
	for _, line := range f.lines {
		if found, ok := directive(line, keySearch); ok {
			words = found
		}
	}
	return cleanSearch(words)
}

// searchWords returns the names of a search or domain line.
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

// asciiLower leaves bytes above 127 alone: names compare by RFC 4343, which defines case for ASCII
// only.
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

// HasLine reports whether the file has exactly this line, given without a line end.
func (f *File) HasLine(line string) bool { return slices.Contains(f.lines, line) }

// directive returns the words after keyword, and whether line starts with it. The keyword must be
// at the very start, followed by a blank, a tab (MATCH in glibc's res_init.c) or the end of the
// line.
func directive(line, keyword string) (words []string, ok bool) {
	rest, ok := strings.CutPrefix(line, keyword)
	if !ok || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return nil, false
	}
	return strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '\t' }), true
}
