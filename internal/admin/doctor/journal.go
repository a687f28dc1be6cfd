package doctor

import (
	"context"
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// logEntry is an entry of the journal with its fields (systemd.journal-fields(7)). If a field
// occurs twice, the first value wins.
type logEntry map[string]string

// time returns when journald received the entry, or zero if that is unknown.
func (e logEntry) time() time.Time {
	us, err := strconv.ParseInt(e["__REALTIME_TIMESTAMP"], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// maxEntries limits the number of journal entries that are read; the latest are kept.
const maxEntries = 1000

// journal returns the latest matching entries, oldest first, with these fields and those that begin
// with "__". It records an error in Unseen. Users other than root and members of systemd-journal
// see only their own entries.
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

func since(t time.Time) string { return "--since=@" + strconv.FormatInt(t.Unix(), 10) }

// parseJournal reads the output of `journalctl --output=json`, one object per line. A value that is
// not UTF-8 is a list of numbers. A value that is too long is null and is skipped.
func parseJournal(text string) []logEntry {
	var all []logEntry
	for line := range strings.Lines(text) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) != nil {
			continue
		}
		entry := logEntry{}
		for name, value := range fields {
			if text, ok := fieldText(value); ok {
				entry[name] = text
			}
		}
		all = append(all, entry)
	}
	return all
}

func fieldText(value any) (string, bool) {
	if text, ok := oneText(value); ok {
		return text, true
	}
	if several, _ := value.([]any); len(several) > 0 {
		return oneText(several[0])
	}
	return "", false
}

func oneText(value any) (string, bool) {
	if text, ok := value.(string); ok {
		return text, true
	}
	numbers, _ := value.([]any)
	var octets []byte
	for _, number := range numbers {
		n, _ := number.(float64)
		if number != float64(byte(n)) {
			return "", false
		}
		octets = append(octets, byte(n))
	}
	return string(octets), len(octets) > 0
}
