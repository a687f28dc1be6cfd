package journal

import (
	"context"
	"log/slog"
	"strconv"

	"github.com/coreos/go-systemd/v22/journal"
)

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

// Handle implements slog.Handler. It never blocks. Its error is that of rendering the line.
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
