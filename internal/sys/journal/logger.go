package journal

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// Sockets of journald: for entries and for lines.
const (
	entrySocket = "/run/systemd/journal/socket"
	lineSocket  = "/run/systemd/journal/stdout"
)

// NewLogger returns a logger that writes to the journal if stderr is connected to it, as entries of
// the program called identifier. Otherwise it writes key=value lines with the time to stderr.
func NewLogger(stderr io.Writer, identifier string, level slog.Leveler) *slog.Logger {
	if termtext.Raw(stderr) == io.Writer(os.Stderr) && leadsToJournal(unix.Stderr) {
		return slog.New(newHandler(&sender{socket: entrySocket, stderr: unix.Stderr, fd: -1}, identifier, ownUnit(), level))
	}
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
}

// leadsToJournal reports whether stderr is connected to the journal. It compares the device and
// inode in JOURNAL_STREAM with those of stderr, because terminals of a desktop session inherit the
// variable too (systemd.exec(5)). go-systemd's function for this scans the numbers with fmt, which
// made NetworkManager's hook 53 KB larger. nm-dispatcher does not pass the variable to the hook, so
// this also checks the peer of the socket.
func leadsToJournal(stderr int) bool {
	var stat unix.Stat_t
	if unix.Fstat(stderr, &stat) == nil && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino) {
		return true
	}
	peer, err := unix.Getpeername(stderr)
	if err != nil {
		return false
	}
	address, ok := peer.(*unix.SockaddrUnix)
	return ok && address.Name == lineSocket
}

// handler sends each record as one entry. MESSAGE is slog's key=value line without the time, which
// the journal records itself. The fields are for programs.
type handler struct {
	sender *sender
	level  slog.Leveler
	text   slog.Handler // writes the text of a record to sender.line
	group  string       // prefix of the following keys: group names, each with a trailing underscore
	fields entry        // fields of every entry: our identity and the logger's attributes
}

var _ slog.Handler = handler{}

// newHandler returns a handler for the program called identifier. unit is the unit that it runs in,
// or "" to let journald determine it.
func newHandler(s *sender, identifier, unit string, level slog.Leveler) handler {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
		if len(groups) == 0 && attr.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return attr
	}}
	fields := entry(nil).add("SYSLOG_IDENTIFIER", identifier, maxValue)
	if unit != "" {
		fields = fields.add(unitField, unit, maxValue)
	}
	return handler{sender: s, level: level, text: slog.NewTextHandler(&s.line, options), fields: fields}
}

// Enabled implements slog.Handler.
func (h handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

// Handle implements slog.Handler. It never blocks. Its error is a failure to render the line.
func (h handler) Handle(ctx context.Context, record slog.Record) error {
	h.sender.mu.Lock()
	defer h.sender.mu.Unlock()
	h.sender.line.Reset()
	if err := h.text.Handle(ctx, record); err != nil {
		return err
	}
	priority := priorityOf(record.Level)
	h.sender.sendLocked(priority, func(e entry, message string) entry {
		e = e.add("MESSAGE", message, maxMessage)
		e = e.add("PRIORITY", strconv.Itoa(int(priority)), maxValue)
		e = e.add(prefix+"MSG", record.Message, maxValue)
		e = append(e, h.fields...)
		record.Attrs(func(attr slog.Attr) bool {
			e = e.addAttr(h.group, attr)
			return true
		})
		return e
	})
	return nil
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.text = h.text.WithAttrs(attrs)
	// Clip, because the array is shared with loggers derived from this one.
	h.fields = h.fields[:len(h.fields):len(h.fields)]
	for _, attr := range attrs {
		h.fields = h.fields.addAttr(h.group, attr)
	}
	return h
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	h.text = h.text.WithGroup(name)
	h.group += name + "_"
	return h
}

// priorityOf returns the syslog(3) priority for a level.
func priorityOf(level slog.Level) journal.Priority {
	switch {
	case level >= slog.LevelError:
		return journal.PriErr
	case level >= slog.LevelWarn:
		return journal.PriWarning
	case level >= slog.LevelInfo:
		return journal.PriInfo
	}
	return journal.PriDebug
}

// unitField is the field that tells `journalctl -u` which unit an entry belongs to. journald looks
// up the unit by the process ID. If a hook has ended before its entry is read, that fails: half of
// its entries lacked the unit (systemd issue 2913). journalctl also accepts this field from root
// (add_matches_for_unit() in logs-show.c).
const unitField = "OBJECT_SYSTEMD_UNIT"

// ownUnit returns the unit that this process runs in. It returns "" if there is none, or if the
// process is not root and may not set the field.
func ownUnit() string {
	if os.Geteuid() != 0 {
		return ""
	}
	groups, _ := os.ReadFile("/proc/self/cgroup") // without it, the unit is unknown
	return unitOf(string(groups))
}

// unitOf parses cgroups(7) and returns the unit: the first component after the slices in the path
// of systemd's hierarchy. Groups below that belong to the unit. It returns "" if there is none.
func unitOf(groups string) string {
	for line := range strings.Lines(groups) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		if controllers != "name=systemd" && (id != "0" || controllers != "") {
			continue
		}
		for part := range strings.SplitSeq(path, "/") {
			part = strings.TrimPrefix(part, "_") // systemd's escape for names that the kernel could use itself
			if strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope") {
				return part
			}
		}
	}
	return ""
}

// MaxFew is the maximum number of list elements in one log line.
const MaxFew = 6

// Few joins the first MaxFew words and appends the number of the others. With `listen: all` and a
// bridge with one address per pod, a node has hundreds of addresses.
func Few(words []string, separator string) string {
	if len(words) <= MaxFew {
		return strings.Join(words, separator)
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:MaxFew], separator), len(words)-MaxFew)
}
