// Package termtext escapes untrusted text for terminals. Names come from DHCP, files and D-Bus, and
// unprintable characters could clear the screen or fake another line.
package termtext

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// All returns a deep copy of value in which every string is escaped. value must be a string, or
// consist of strings, slices, structs and pointers, without maps and unexported fields.
func All[T any](value T) T {
	v := reflect.ValueOf(&value).Elem()
	escapeAll(v)
	return value
}

func escapeAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(Escape(v.String()))
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		for i := range own.Len() {
			escapeAll(own.Index(i))
		}
		v.Set(own)
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		own := reflect.New(v.Type().Elem())
		own.Elem().Set(v.Elem())
		escapeAll(own.Elem())
		v.Set(own)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			escapeAll(v.Field(i))
		}
	}
}

// Escape replaces unprintable characters, including line ends, with \xNN, \uNNNN or \UNNNNNNNN.
func Escape(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0 {
		return text
	}
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1, r < utf8.RuneSelf && !unicode.IsPrint(r):
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out.String()
}

// Lines escapes text that may have several lines, and indents every line after the first, so that
// none looks like a separate row. It keeps tabs.
func Lines(text, indent string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		words := strings.Split(line, "\t")
		for j := range words {
			words[j] = Escape(words[j])
		}
		lines[i] = strings.Join(words, "\t")
	}
	return strings.Join(lines, "\n"+indent)
}

// Quote returns text as one word of a shell command. Every printed command must use it: clients of
// the resolver choose names that contain "&", ";" and "$(".
func Quote(text string) string {
	isPlain := text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_+.:@/", r))
	})
	if isPlain {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
