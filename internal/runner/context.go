package runner

import (
	"context"

	"github.com/ingot-metal/ingot/internal/store"
)

// Info says for what purpose code runs.
type Info struct {
	Task      string // "work", or the name of the loop or request
	Work      store.WorkKind
	Node      string // UUID
	Epoch     int64  // of the lease of the node under which that operation runs; 0 before the first one
	Operation Ref    // the last operation begun, or the next one
	Request   string // name for calls of that operation, see driver.Origin
}

type infoKey struct{}

// WithInfo returns a context with info.
func WithInfo(ctx context.Context, info *Info) context.Context {
	return context.WithValue(ctx, infoKey{}, info)
}

// InfoOf returns the info of a context; the zero value when it has none.
func InfoOf(ctx context.Context) Info {
	if info, ok := ctx.Value(infoKey{}).(*Info); ok {
		return *info
	}
	return Info{}
}
