package conductor

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// How often the log says why a ramdisk was refused. Ramdisks are not authenticated, so
// anybody could fill the disk with lines.
const (
	refusalsASecond = 10
	refusalsAtOnce  = 200
	shownAddresses  = 8 // of a machine, in one line
)

// refusals logs the reasons that machines themselves are not told.
type refusals struct {
	log     *slog.Logger
	limit   *rate.Limiter
	dropped atomic.Int64 // lines that were not written since the last one
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, limit: rate.NewLimiter(refusalsASecond, refusalsAtOnce)}
}

// note writes a line, or counts it for the next one that is written.
func (r *refusals) note(now time.Time, level slog.Level, message string, attrs ...slog.Attr) {
	if !r.limit.AllowN(now, 1) {
		r.dropped.Add(1)
		return
	}
	if dropped := r.dropped.Swap(0); dropped > 0 {
		attrs = append(attrs, slog.Int64("lines_left_out", dropped))
	}
	r.log.LogAttrs(context.Background(), level, message, attrs...) //nolint:sloglint // the messages of all callers are constant
}

// shown shortens a list of addresses for the log.
func shown(addresses []string) slog.Attr {
	return slog.Any("addresses", addresses[:min(len(addresses), shownAddresses)])
}
