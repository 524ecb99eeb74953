package operator

import (
	"context"
	"log/slog"
	"strings"
	"sync"
)

// warnings logs the warnings of the API server, each text once.
type warnings struct {
	logger *slog.Logger
	seen   sync.Map
}

// knownWarning is the end of the API server's warning about finalizers without a path. The names of
// these finalizers are part of the wire format and stay as they are.
const knownWarning = "prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers"

// HandleWarningHeaderWithContext is called by the client for each warning.
func (w *warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	// 299 is the only code that the API server uses (RFC 7234, section 5.5.7).
	if code != 299 || text == "" || strings.HasSuffix(text, knownWarning) {
		return
	}
	if _, seen := w.seen.LoadOrStore(text, true); !seen {
		w.logger.WarnContext(ctx, "Warning from the API server", "text", text)
	}
}
