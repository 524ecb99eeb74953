package engine

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestLogHasNoCredentialsOfURLs(t *testing.T) {
	const url = "https://user:hunter2@192.0.2.1/image?signature=hunter2"
	var out bytes.Buffer
	log := maskingLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	log.With("image", url).WithGroup("agent").Debug("Read "+url, "err", fmt.Errorf("get: %w", errors.New(url)),
		slog.Group("callback", "url", url, "attempt", 3), "secret", Secret("hunter2"), "none", error(nil))
	got := out.String()
	if strings.Contains(got, "hunter2") {
		t.Errorf("got %s", got)
	}
	for _, want := range []string{
		`image="https://******@192.0.2.1/image?signature=******"`, `agent.err="get: https://******@192.0.2.1/image?signature=******"`,
		"agent.callback.attempt=3", "agent.secret=******", `msg="Read https://******@192.0.2.1/image?signature=******"`, "agent.none=<nil>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
}
