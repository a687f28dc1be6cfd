package resolvconf

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// SetNameservers replaces the nameservers. It removes all old nameserver lines, including invalid
// ones. The new lines go to the place of the first old one, else to the end. An address is always
// alone on its line: kubelet parsed a comment after it as more nameservers and wrote "nameserver #"
// into pods (openshift-ansible issue 1950). If the file already names exactly these, no byte
// changes. The zero Addr, and addresses with a zone ID that nameserver.ParseAddr refuses, are left
// out.
func (f *File) SetNameservers(addrs []netip.Addr) {
	addrs = writable(addrs)
	if f.saysNameservers(addrs) {
		return
	}
	var lines []string
	for _, addr := range addrs {
		lines = append(lines, keyNameserver+" "+addr.String())
	}
	isNameserver := is(keyNameserver)
	at := slices.IndexFunc(f.lines, isNameserver)
	if at < 0 {
		at = len(f.lines)
	}
	f.lines = slices.DeleteFunc(f.lines, isNameserver)
	f.lines = slices.Insert(f.lines, at, lines...)
}

// is returns a function that reports whether a line starts with the keyword.
func is(keyword string) func(line string) bool {
	return func(line string) bool {
		_, ok := directive(line, keyword)
		return ok
	}
}

// writable returns the addresses that ParseAddr reads back as one word with the same address.
func writable(addrs []netip.Addr) []netip.Addr {
	var good []netip.Addr
	for _, addr := range addrs {
		if read, err := nameserver.ParseAddr(addr.String()); err == nil {
			good = append(good, read)
		}
	}
	return good
}

// saysNameservers reports whether the nameserver lines are exactly these addresses, each alone on
// its line.
func (f *File) saysNameservers(addrs []netip.Addr) bool {
	var present []netip.Addr
	for _, line := range f.lines {
		words, ok := directive(line, keyNameserver)
		if !ok {
			continue
		}
		if len(words) != 1 {
			return false
		}
		addr, err := nameserver.ParseAddr(words[0])
		if err != nil {
			return false
		}
		present = append(present, addr)
	}
	return slices.Equal(present, addrs)
}

// SetSearch sets the effective search list. All search lines become one, at the place of the last.
// Domain lines stay, and the search line goes after a domain line that would override it. Without a
// search line it goes to the end. Names are written as given, without a final dot. Invalid names
// (dnsname.Parse) and the root are left out. If the file already has exactly this list, no byte
// changes. The caller must remove duplicates. An empty list removes the search lines, unless the
// effective list is empty already.
func (f *File) SetSearch(names []string) {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		parsed, err := dnsname.Parse(name)
		return err != nil || parsed.IsRoot()
	})
	names = withoutDots(names)
	if f.saysSearch(names) {
		return
	}
	at := f.searchPlace()
	before, after := slices.Clone(f.lines[:at]), slices.Clone(f.lines[at:])
	f.lines = slices.DeleteFunc(before, is(keySearch))
	if len(names) > 0 {
		f.lines = append(f.lines, keySearch+" "+strings.Join(names, " "))
	}
	f.lines = append(f.lines, slices.DeleteFunc(after, is(keySearch))...)
}

// withoutDots returns the names without their final dot.
func withoutDots(names []string) []string {
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = strings.TrimSuffix(name, ".")
	}
	return short
}

// SetOptions sets the options, on one line at the end. If the file already has exactly these, no
// byte changes. An empty list removes the options lines.
func (f *File) SetOptions(words []string) {
	if slices.Equal(f.Options(), words) {
		return
	}
	f.lines = slices.DeleteFunc(f.lines, is(keyOptions))
	if len(words) > 0 {
		f.lines = append(f.lines, keyOptions+" "+strings.Join(words, " "))
	}
}

func isBareSearch(line string) bool {
	words, ok := directive(line, keySearch)
	return ok && len(words) == 0
}

// RemoveComment removes every comment line that contains text, the comment lines directly after it,
// and one blank line after those.
func (f *File) RemoveComment(text string) {
	for at := 0; at < len(f.lines); at++ {
		if !isComment(f.lines[at]) || !strings.Contains(f.lines[at], text) {
			continue
		}
		end := at + 1
		for end < len(f.lines) && isComment(f.lines[end]) {
			end++
		}
		if end < len(f.lines) && f.lines[end] == "" {
			end++
		}
		f.lines = slices.Delete(f.lines, at, end)
		at--
	}
}

func isDomain(line string) bool {
	words, _ := directive(line, keyDomain)
	return len(words) > 0
}

// searchPlace returns the index at which the search line is inserted.
func (f *File) searchPlace() int {
	search, domain := f.lastIndex(is(keySearch)), f.lastIndex(isDomain)
	switch {
	case search < 0:
		return len(f.lines)
	case domain > search:
		return domain + 1
	}
	return search
}

func (f *File) lastIndex(match func(string) bool) int {
	for i, line := range slices.Backward(f.lines) {
		if match(line) {
			return i
		}
	}
	return -1
}

// saysSearch reports whether there is exactly one search line, which is effective and has exactly
// these names. If names is empty, it reports whether the effective list is empty and no line
// consists only of the keyword, as NetworkManager writes it for an invalid name.
func (f *File) saysSearch(names []string) bool {
	if len(names) == 0 {
		return len(f.Search()) == 0 && !slices.ContainsFunc(f.lines, isBareSearch)
	}
	var words []string
	count := 0
	for _, line := range f.lines {
		if found, ok := directive(line, keySearch); ok {
			words, count = found, count+1
		} else if isDomain(line) {
			words = nil
		}
	}
	return count == 1 && slices.Equal(withoutDots(words), names)
}

// PrependLine inserts a comment before all other lines. It puts "# " before text that does not
// start with '#' or ';', so that the line can never be a directive. Control characters, including
// line breaks, become blanks.
func (f *File) PrependLine(comment string) {
	f.lines = slices.Insert(f.lines, 0, commentLine(comment))
}

func commentLine(text string) string {
	if !isComment(text) {
		text = "# " + text
	}
	return printable(text)
}

// RemoveLine removes all lines equal to line, which has no line end.
func (f *File) RemoveLine(line string) {
	f.lines = slices.DeleteFunc(f.lines, func(have string) bool { return have == line })
}
