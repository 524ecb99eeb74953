package ramdisklog

import (
	"fmt"
	"io"
)

// bound is the error that a limit of what is read was reached. Its text says what the archive has
// too much of.
type bound string

func (b bound) Error() string { return "there are " + string(b) }

// bounded reads up to left bytes of what it wraps, until over returns an error. Then it returns a
// bound.
type bounded struct {
	io.Reader
	left int64
	over func() error
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	switch {
	case b.left <= 0:
		return 0, bound(fmt.Sprintf("more than %d MiB unpacked", maxUnpacked>>20))
	case b.over() != nil:
		return 0, bound("more than there was time to unpack")
	}
	n, err := b.Reader.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// ending keeps at least the last limit bytes that are written to it, and never more than three
// times as many.
type ending struct {
	limit int
	kept  []byte
}

// Write implements io.Writer. It always accepts everything.
func (e *ending) Write(p []byte) (int, error) {
	e.kept = append(e.kept, tail(p, e.limit)...)
	if len(e.kept) > 2*e.limit {
		e.kept = append(e.kept[:0], tail(e.kept, e.limit)...)
	}
	return len(p), nil
}
