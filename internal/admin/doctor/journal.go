package doctor

import (
	"context"
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A logEntry is an entry of the journal: its fields (systemd.journal-fields(7)). Of a field that stands twice the first
// text counts.
type logEntry map[string]string

// time is when journald took the entry; zero: it does not say.
func (e logEntry) time() time.Time {
	us, err := strconv.ParseInt(e["__REALTIME_TIMESTAMP"], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// maxEntries bounds what is read of the journal: the latest.
const maxEntries = 1000

// journal returns the latest entries that match, oldest first, with these fields and those that begin with "__". An error makes
// what is asked for unseen. Others than root and the group systemd-journal see their own entries alone.
func (g *gathering) journal(ctx context.Context, what string, fields []string, matches ...string) []logEntry {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "journalctl", append([]string{
		"--no-pager", "--quiet", "--output=json", "--lines=" + strconv.Itoa(maxEntries), "--output-fields=" + strings.Join(fields, ","),
	}, matches...)...)
	cmd.WaitDelay = patience
	out, err := cmd.Output()
	if err != nil {
		g.unseen("%s: reading the journal: %v", what, err)
		return nil
	}
	return parseJournal(string(out))
}

// since is an argument of journalctl.
func since(t time.Time) string { return "--since=@" + strconv.FormatInt(t.Unix(), 10) }

// parseJournal reads what `journalctl --output=json` prints: an object a line. A text that is not UTF-8 is a list of
// numbers there; one that is too long is null, and left out.
func parseJournal(text string) []logEntry {
	var all []logEntry
	for line := range strings.Lines(text) {
		var fields map[string]json.RawMessage
		if json.Unmarshal([]byte(line), &fields) != nil {
			continue
		}
		entry := logEntry{}
		for name, raw := range fields {
			if value, ok := fieldText(raw); ok {
				entry[name] = value
			}
		}
		all = append(all, entry)
	}
	return all
}

func fieldText(raw json.RawMessage) (string, bool) {
	var several []json.RawMessage
	if text, ok := oneText(raw); ok || json.Unmarshal(raw, &several) != nil || len(several) == 0 {
		return text, ok
	}
	return oneText(several[0])
}

func oneText(raw json.RawMessage) (string, bool) {
	var text *string
	if json.Unmarshal(raw, &text) == nil && text != nil {
		return *text, true
	}
	var numbers []uint16 // encoding/json reads a []uint8 from base64
	if json.Unmarshal(raw, &numbers) != nil || len(numbers) == 0 {
		return "", false
	}
	var octets []byte
	for _, n := range numbers {
		octets = append(octets, byte(n))
	}
	return string(octets), true
}
