package main

import (
	"context"
	"io"
	"log/slog"
	"strings"

	"github.com/coreos/go-systemd/v22/journal"
)

const identifier = "origin-dns-dispatcher"

// newLogger logs key=value lines: to the journal where stderr leads there, with a priority and an identifier of our own
// (the hook's stderr would be filed under nm-dispatcher's), else to stderr. The journal has its own time of day. The
// variable alone does not tell: a desktop's terminals have it from the unit that they run in (systemd.exec(5)).
func newLogger(stderr io.Writer) *slog.Logger {
	if ours, err := journal.StderrIsJournalStream(); err != nil || !ours || !journal.Enabled() {
		return slog.New(slog.NewTextHandler(stderr, nil))
	}
	return slog.New(journalHandler{})
}

// journalHandler sends a record as one journal entry whose message is the key=value line.
type journalHandler struct{}

var _ slog.Handler = journalHandler{}

func (journalHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (journalHandler) Handle(ctx context.Context, record slog.Record) error {
	var line strings.Builder
	text := slog.NewTextHandler(&line, &slog.HandlerOptions{ReplaceAttr: dropTimeAndLevel})
	if err := text.Handle(ctx, record); err != nil {
		return err
	}
	priority := journal.PriInfo
	if record.Level >= slog.LevelError {
		priority = journal.PriErr
	}
	return journal.Send(strings.TrimSuffix(line.String(), "\n"), priority,
		map[string]string{"SYSLOG_IDENTIFIER": identifier})
}

func dropTimeAndLevel(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && (attr.Key == slog.TimeKey || attr.Key == slog.LevelKey) {
		return slog.Attr{}
	}
	return attr
}

// The dispatcher's lines carry all their attributes in the record: there are no loggers with some of their own.
func (h journalHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h journalHandler) WithGroup(string) slog.Handler      { return h }
