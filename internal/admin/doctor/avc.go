package doctor

import (
	"encoding/hex"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Denial is an access that SELinux denied, or would have denied in enforcing mode: an AVC record of
// the kernel, or a USER_AVC record of a program that checks the policy itself, such as dbus-daemon
// or systemd.
type Denial struct {
	Time   time.Time // zero if not in the record
	Serial uint64    // of the audit event; 0 if not in the record

	Permissions []string // such as "execute"; at least one
	Class       string   // of the object, such as "file"
	Source      string   // context of the process
	Target      string   // context of the object
	Command     string   // name of the process, at most 15 characters; "" if not in the record
	Name        string   // of the object: a path or its last component; "" if it has none
	Port        string   // for name_bind and name_connect; otherwise ""
	Permissive  bool     // logged but allowed
}

var (
	// access is what follows "avc:" in a record. The kernel writes two spaces between the words,
	// and tools that pass records on write one.
	access = regexp.MustCompile(`^ *denied *\{([^}]*)\}(?s:(.*))`)
	// stamp has seconds, milliseconds and a serial number.
	stamp = regexp.MustCompile(`audit\((\d+)\.(\d{1,3}):(\d+)\)`)
)

// parseDenial parses one line of audit.log, or the text of an audit record in the journal, which
// lacks time and serial number. ok is false for every other record.
func parseDenial(record string) (d Denial, ok bool) {
	head, said, _ := strings.Cut(record, "avc:")
	match := access.FindStringSubmatch(said)
	if match == nil {
		return Denial{}, false
	}
	if d.Permissions = strings.Fields(match[1]); len(d.Permissions) == 0 {
		return Denial{}, false
	}
	d.Time, d.Serial = parseStamp(head)
	for rest := match[2]; rest != ""; {
		var key, value string
		key, value, rest = nextField(rest)
		d.set(key, value)
	}
	for _, word := range []string{d.Source, d.Target, d.Class} {
		if word == "" || strings.Contains(word, `"`) {
			return Denial{}, false
		}
	}
	return d, true
}

// set sets one field. If a key occurs twice, the last one wins, because a program's own statements
// come first.
func (d *Denial) set(key, value string) {
	switch key {
	case "comm":
		d.Command = untrusted(value)
	case "name":
		if d.Name == "" { // a name is less than a path
			d.Name = untrusted(value)
		}
	case "path":
		d.Name = untrusted(value)
	case "src", "dest": // in D-Bus records this is a name
		if _, err := strconv.ParseUint(value, 10, 16); err == nil {
			d.Port = value
		}
	case "scontext":
		d.Source = value
	case "tcontext":
		d.Target = value
	case "tclass":
		d.Class = value
	case "permissive":
		d.Permissive = value == "1"
	}
}

// nextField cuts the first KEY=VALUE off the text. A quoted value keeps its quotes. A word without
// "=" has an empty value. An auditd with log_format=ENRICHED puts a group separator before the
// fields that it adds.
func nextField(text string) (key, value, rest string) {
	text = strings.TrimLeft(text, " \n\x1d'")
	end := strings.IndexAny(text, " \n\x1d'")
	if end < 0 {
		end = len(text)
	}
	key, value, _ = strings.Cut(text[:end], "=")
	if strings.HasPrefix(value, `"`) {
		start := len(key) + len(`="`)
		if length := strings.IndexByte(text[start:], '"'); length >= 0 {
			end = start + length + 1
			value = text[start-1 : end]
		}
	}
	return key, value, text[end:]
}

// untrusted decodes a string that a process chose. It is quoted, or in hexadecimal if it contains a
// quote, a space or a control character (audit_log_untrustedstring in the kernel).
func untrusted(value string) string {
	if inner, ok := strings.CutPrefix(value, `"`); ok {
		return strings.TrimSuffix(inner, `"`)
	}
	if text, err := hex.DecodeString(value); err == nil {
		return string(text)
	}
	return value
}

// parseStamp parses "audit(SECONDS.MILLISECONDS:SERIAL)". The results are zero if there is none.
func parseStamp(head string) (at time.Time, serial uint64) {
	match := stamp.FindStringSubmatch(head)
	if match == nil {
		return time.Time{}, 0
	}
	sec, err := strconv.ParseInt(match[1], 10, 64)
	milli, _ := strconv.ParseInt(match[2], 10, 64) // at most three digits
	serial, errSerial := strconv.ParseUint(match[3], 10, 64)
	if err != nil || errSerial != nil {
		return time.Time{}, 0
	}
	return time.Unix(sec, milli*int64(time.Millisecond)).UTC(), serial
}

// isSame reports whether two denials are of the same access at any time: the same process name,
// contexts and object.
func (d Denial) isSame(other Denial) bool {
	d.Time, d.Serial = other.Time, other.Serial
	return reflect.DeepEqual(d, other)
}
