package engine

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/ingot-metal/ingot/internal/node"
)

// maskingLog returns a logger that masks credentials in URLs, whichever part of the engine logs
// them. Errors of libraries often quote the URL of the request.
func maskingLog(log *slog.Logger) *slog.Logger { return slog.New(maskHandler{log.Handler()}) }

// maskHandler masks the messages and the values that it passes on.
type maskHandler struct{ next slog.Handler }

// Enabled reports whether next handles records of the level.
func (h maskHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle passes on the record with credentials masked.
func (h maskHandler) Handle(ctx context.Context, record slog.Record) error {
	masked := slog.NewRecord(record.Time, record.Level, node.MaskURLs(record.Message), record.PC)
	record.Attrs(func(a slog.Attr) bool {
		masked.AddAttrs(maskAttr(a))
		return true
	})
	return h.next.Handle(ctx, masked)
}

// WithAttrs returns a handler whose records have attrs.
func (h maskHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	masked := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		masked[i] = maskAttr(a)
	}
	return maskHandler{h.next.WithAttrs(masked)}
}

// WithGroup returns a handler that puts the attributes of its records into a group.
func (h maskHandler) WithGroup(name string) slog.Handler { return maskHandler{h.next.WithGroup(name)} }

func maskAttr(a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	switch value.Kind() {
	case slog.KindString:
		return slog.String(a.Key, node.MaskURLs(value.String()))
	case slog.KindGroup:
		group := make([]slog.Attr, len(value.Group()))
		for i, member := range value.Group() {
			group[i] = maskAttr(member)
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(group...)}
	case slog.KindAny:
		if err, ok := value.Any().(error); ok {
			return slog.String(a.Key, node.MaskURLs(err.Error()))
		}
		text := fmt.Sprint(value.Any())
		if masked := node.MaskURLs(text); masked != text {
			return slog.String(a.Key, masked)
		}
	}
	return slog.Attr{Key: a.Key, Value: value}
}
