package loglimit_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/loglimit"
)

func TestAFloodWritesFewLinesAndCountsTheOthers(t *testing.T) {
	const perSecond, burst = 10, 200
	var out bytes.Buffer
	l := loglimit.New(slog.New(slog.NewTextHandler(&out, nil)), perSecond, burst)
	now := time.Unix(1000, 0)
	for range 100_000 {
		l.Log(now, slog.LevelInfo, "Refused inspection data")
		l.Log(now, slog.LevelDebug, "Not logged") // and not counted
	}
	if lines := strings.Count(out.String(), "\n"); lines != burst {
		t.Errorf("%d lines at once, want %d", lines, burst)
	}
	out.Reset()
	for range 1000 {
		l.Log(now.Add(time.Second), slog.LevelInfo, "Refused inspection data")
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != perSecond || !strings.Contains(lines[0], "lines_left_out=99800") || strings.Contains(lines[1], "left_out") {
		t.Errorf("%d lines a second later, want %d; the first is %s", len(lines), perSecond, lines[0])
	}
}
