package runner

import (
	"context"

	"github.com/ingot-metal/ingot/internal/store"
)

// Info says what something is done for.
type Info struct {
	Task      string // "work", or the loop or request that it belongs to
	Work      store.WorkKind
	Node      string // UUID
	Operation Ref    // the one that was last begun or is next
	Request   string // what calls of that operation are made for, see driver.Origin
}

type infoKey struct{}

// WithInfo returns a context of what is done for info.
func WithInfo(ctx context.Context, info *Info) context.Context {
	return context.WithValue(ctx, infoKey{}, info)
}

// InfoOf returns what a context is of; the zero value when it does not say.
func InfoOf(ctx context.Context) Info {
	if info, ok := ctx.Value(infoKey{}).(*Info); ok {
		return *info
	}
	return Info{}
}
