package dnsmasqconf

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// maxLine is the longest line, in bytes. dnsmasq reads a longer one as two (MAXDNAME).
const maxLine = 1024

// text parses the lines of a file. dnsmasq has no line continuation.
func (l *loader) text(name string, data []byte) {
	l.at = position{name, 1, 1}
	if len(data) > maxFile {
		l.fault("", "a file of at most 1 MiB", "a larger one")
		return
	}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		l.at = position{name, number, 1}
		l.line(strings.TrimSuffix(string(line), "\n"))
	}
}

// line parses "option", or "option=argument" with optional blanks.
func (l *loader) line(raw string) {
	if len(raw) > maxLine {
		l.at.column = column(raw, maxLine)
		l.fault("", fmt.Sprintf("a line of at most %d bytes, because dnsmasq splits longer ones", maxLine), "a longer one")
		return
	}
	begin := len(raw) - len(strings.TrimLeft(raw, blanks))
	l.at.column = column(raw, begin)
	text, wrong, got := unquote(raw)
	if wrong != "" {
		l.fault("", wrong, got)
		return
	}
	word, argument, has := strings.Cut(strings.Trim(text, " "), "=")
	word = strings.TrimRight(word, " ")
	if word == "" && !has {
		return
	}
	if before, _, _ := strings.Cut(strings.ReplaceAll(raw, `""`, ""), "="); strings.Contains(before, `"`) {
		word = strings.TrimSpace(before) // not an option: dnsmasq knows none in quotes
	}
	if has {
		if i := strings.IndexByte(raw, '='); i >= 0 {
			l.at.column = column(raw, i+1+len(raw[i+1:])-len(strings.TrimLeft(raw[i+1:], blanks)))
		}
	}
	start := position{l.at.file, l.at.line, column(raw, begin)}
	l.option(shown(word), strings.TrimLeft(argument, " "), has, start)
}

// column counts characters from 1.
func column(text string, at int) int { return utf8.RuneCountInString(text[:at]) + 1 }

// blanks are the characters of isspace in C.
const blanks = " \t\v\f\r"

// Special characters lose their meaning within quotes: until shown restores them, each is replaced
// by a control character. Control characters in the file itself are already errors.
const (
	meant  = ",/.#:@= \t\n\b\r\x1b\"\\"
	hidden = "\x01\x02\x03\x04\x05\x06\x07\x0e\x0f\x10\x11\x12\x13\x14\x15"
)

func hide(c byte) byte {
	if i := strings.IndexByte(meant, c); i >= 0 {
		return hidden[i]
	}
	return c
}

// shown restores the characters that hide replaced.
func shown(text string) string {
	if !strings.ContainsAny(text, hidden) {
		return text
	}
	out := []byte(text)
	for i, c := range out {
		if at := strings.IndexByte(hidden, c); at >= 0 {
			out[i] = meant[at]
		}
	}
	return string(out)
}

// unquote removes the comment, which starts with # at the line's start or after a blank. It turns
// every blank into a space, and removes quotes. Within quotes \" \\ \n \t \b \r \e have their
// meaning in C.
func unquote(raw string) (text, wrong, got string) {
	var out []byte
	white := true
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == '"':
			var closed bool
			if out, i, closed = quoted(out, raw, i+1); !closed {
				return "", `a closing quote (")`, "the end of the line"
			}
		case strings.IndexByte(blanks, c) >= 0:
			out, white = append(out, ' '), true
		case c == '#' && white:
			return string(out), "", ""
		case c < ' ' || c == 0x7f:
			return "", "text", fmt.Sprintf("the byte 0x%02x", c)
		default:
			out, white = append(out, c), false
		}
	}
	if !utf8.ValidString(raw) {
		return "", "text in UTF-8", nodeconfig.Quote(strings.ToValidUTF8(raw, "?"))
	}
	return string(out), "", ""
}

// quoted appends the quoted text from i on, and returns where it closes.
func quoted(out []byte, raw string, i int) (_ []byte, end int, closed bool) {
	for ; i < len(raw) && raw[i] != '"'; i++ {
		c := raw[i]
		if c == '\\' && i+1 < len(raw) {
			if at := strings.IndexByte(`"tnebr\`, raw[i+1]); at >= 0 {
				i++
				c = "\"\t\n\x1b\b\r\\"[at]
			}
		}
		if c < ' ' && strings.IndexByte(meant, c) < 0 {
			c = '?'
		}
		out = append(out, hide(c))
	}
	return out, i, i < len(raw)
}

// Where returns the first place that sets a record for a name, or an address for its domain. The
// longest domain wins. It searches everything, so it is only for explanations to people. ok is
// false if there is none.
func (c Config) Where(name dnsname.Name) (place Place, ok bool) {
	for _, h := range c.Hosts {
		back := func(addr netip.Addr) bool { return dnsname.Reverse(addr) == name }
		if slices.Contains(h.Names, name) || slices.ContainsFunc(h.Addrs, back) {
			return h.Place, true
		}
	}
	for _, r := range c.CNAMEs {
		if r.Alias == name {
			return r.Place, true
		}
	}
	for _, r := range slices.Concat(c.Records, c.PTRs) {
		if r.Name == name {
			return r.Place, true
		}
	}
	for _, r := range c.MXs {
		if r.Name == name {
			return r.Place, true
		}
	}
	for zone := name; !zone.IsZero(); zone = zone.Parent() {
		for _, a := range c.Addresses {
			if a.Domain == zone && !a.Plain || a.Plain && zone.IsRoot() && name.Labels() == 1 {
				return a.Place, true
			}
		}
	}
	return Place{}, false
}
