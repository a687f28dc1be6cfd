package termtext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// JSON escapes the characters in JSON that the standard library does not escape, but that could
// control a terminal: DEL, control characters beyond ASCII, and characters that change the text
// direction. They occur only in strings. The result is JSON with the same value.
func JSON(text []byte) string {
	return markup(text, func(r rune) string {
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	})
}

// YAML escapes the same characters in YAML with double quotes, which rejects some of them.
func YAML(text []byte) string {
	return markup(text, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) })
}

// markup escapes text. beyond16 formats a code point above 16 bits, which JSON and YAML escape
// differently.
func markup(text []byte, beyond16 func(r rune) string) string {
	var out strings.Builder
	for _, r := range string(text) {
		switch {
		case r < 0x7f || unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			out.WriteString(beyond16(r))
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
