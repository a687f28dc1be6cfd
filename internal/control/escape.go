package control

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// escaped is a value in whose texts nothing steers a terminal or begins a line: what does not print stands as in a Go
// string. Names come from DHCP, from files and over D-Bus. It shares no memory with the given one.
func escaped[T any](value T) T {
	v := reflect.ValueOf(&value).Elem()
	escapeAll(v)
	return value
}

func escapeAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(escape(v.String()))
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

// escape writes what does not print as \xNN, \uNNNN or \UNNNNNNNN.
func escape(text string) string {
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

// escapedLines escapes a text that may have several lines: the further ones are indented, to be no row of their own.
func escapedLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = escape(lines[i])
	}
	return strings.Join(lines, "\n    ")
}
