package journal

import (
	"encoding/binary"
	"log/slog"
	"strings"
	"unicode/utf8"
)

// Limits of an entry in bytes. A datagram must fit in the socket's send buffer
// (net.core.wmem_default, 212992), and a line that goes to stderr instead must fit in journald's
// LineMax= of 48 KiB.
const (
	maxName    = 64 // journald drops fields with longer names
	maxValue   = 16 << 10
	maxMessage = 32 << 10
	maxEntry   = 96 << 10
)

// prefix separates our fields from the well-known ones (systemd.journal-fields(7)) and from those
// of other programs.
const prefix = "NODE_DNS_"

// cut is appended to truncated values.
const cut = "…"

// entry is a datagram of the journal's native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL). Each
// line is a field. A field whose value has a line feed is written as name, line feed, size as
// 64-bit little-endian number, value, line feed.
type entry []byte

// add appends a field unless the entry is full. The name must be valid for journald; see fieldName.
func (e entry) add(name, value string, limit int) entry {
	value = shorten(value, limit)
	if len(e)+len(name)+len(value)+10 > maxEntry {
		return e
	}
	e = append(e, name...)
	if strings.Contains(value, "\n") {
		e = append(e, '\n')
		e = binary.LittleEndian.AppendUint64(e, uint64(len(value)))
	} else {
		e = append(e, '=')
	}
	e = append(e, value...)
	return append(e, '\n')
}

// addAttr appends an attribute: as NODE_DNS_KEY, as NODE_DNS_GROUP_KEY if it is in a group, or as
// MESSAGE_ID if it is a condition.
func (e entry) addAttr(group string, attr slog.Attr) entry {
	if c, ok := attr.Value.Any().(Condition); ok {
		return e.add("MESSAGE_ID", c.Explain().ID, maxValue).add(prefix+"CONDITION", c.String(), maxValue)
	}
	value := attr.Value.Resolve()
	if value.Kind() != slog.KindGroup {
		if attr.Key == "" {
			return e
		}
		return e.add(fieldName(group+attr.Key), value.String(), maxValue)
	}
	if attr.Key != "" { // without a key, its attributes belong to the enclosing group (slog.Handler)
		group += attr.Key + "_"
	}
	for _, inner := range value.Group() {
		e = e.addAttr(group, inner)
	}
	return e
}

// fieldName returns the field name for a key: at most 64 upper-case letters, digits and underscores
// (sd_journal_print(3)).
func fieldName(key string) string {
	name := []byte(prefix)
	for _, r := range key {
		if len(name) == maxName {
			break
		}
		switch {
		case 'a' <= r && r <= 'z':
			r += 'A' - 'a'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		default:
			r = '_'
		}
		name = append(name, byte(r))
	}
	return string(name)
}

// shorten truncates text to limit bytes, between characters if it is UTF-8.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len(cut)
	for i := 0; i < utf8.UTFMax && end > 0 && !utf8.RuneStart(text[end]); i++ {
		end--
	}
	return text[:end] + cut
}
