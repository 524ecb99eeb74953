// Package loglimit limits the log lines that anybody on the network can cause, so that nobody fills
// the disk with them.
package loglimit

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Logger writes a limited number of lines. It is safe for concurrent use.
type Logger struct {
	log     *slog.Logger
	limit   *rate.Limiter
	dropped atomic.Int64 // lines left out since the last line that was written
}

// New returns a logger that writes perSecond lines per second in the long run, and burst lines at
// once.
func New(log *slog.Logger, perSecond, burst int) *Logger {
	return &Logger{log: log, limit: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// Log writes a line. If the limit is reached, it leaves the line out and counts it in
// lines_left_out of the next line.
func (l *Logger) Log(now time.Time, level slog.Level, message string, attrs ...slog.Attr) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	if !l.limit.AllowN(now, 1) {
		l.dropped.Add(1)
		return
	}
	if dropped := l.dropped.Swap(0); dropped > 0 {
		attrs = append(attrs, slog.Int64("lines_left_out", dropped))
	}
	l.log.LogAttrs(context.Background(), level, message, attrs...) //nolint:sloglint // the messages of all callers are constant
}
