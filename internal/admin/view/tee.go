package view

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
)

// Tee returns a handler that also sends log records of level Info and above to the watchers, even
// if next drops them. The log holds only state changes.
func (h *Hub) Tee(next slog.Handler) slog.Handler {
	tee := tee{hub: h, next: next}
	tee.text = func(w *bytes.Buffer) slog.Handler {
		return slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: attributesAlone})
	}
	return tee
}

type tee struct {
	hub  *Hub
	next slog.Handler
	text func(*bytes.Buffer) slog.Handler // includes the attributes of the logger
}

var _ slog.Handler = tee{}

// Enabled implements slog.Handler.
func (t tee) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && t.hub.watchers.Load() != nil || t.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (t tee) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelInfo && t.hub.watchers.Load() != nil {
		var line bytes.Buffer
		if err := t.text(&line).Handle(ctx, record); err == nil {
			t.hub.change(Event{Time: record.Time, Change: record.Message, Details: strings.TrimSuffix(line.String(), "\n")})
		}
	}
	if !t.next.Enabled(ctx, record.Level) {
		return nil
	}
	return t.next.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (t tee) WithAttrs(attrs []slog.Attr) slog.Handler {
	return t.with(t.next.WithAttrs(attrs), func(text slog.Handler) slog.Handler { return text.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (t tee) WithGroup(name string) slog.Handler {
	return t.with(t.next.WithGroup(name), func(text slog.Handler) slog.Handler { return text.WithGroup(name) })
}

func (t tee) with(next slog.Handler, more func(slog.Handler) slog.Handler) tee {
	text := t.text
	return tee{hub: t.hub, next: next, text: func(w *bytes.Buffer) slog.Handler { return more(text(w)) }}
}

func attributesAlone(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && (attr.Key == slog.TimeKey || attr.Key == slog.LevelKey || attr.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return attr
}
