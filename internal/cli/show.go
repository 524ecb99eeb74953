package cli

import (
	"context"
	"io"

	"github.com/ingot-metal/ingot/internal/baremetal"
)

// NodeShow prints one node.
type NodeShow struct {
	// Fields limit what is shown; none means everything.
	Fields []string
	Output Output
}

// Run reads the node with the name or UUID ident and prints it to out.
func (s NodeShow) Run(ctx context.Context, engine *baremetal.Client, ident string, out io.Writer) error {
	raw, err := engine.NodeDocument(ctx, ident, s.Fields...)
	if err != nil {
		return err
	}
	n, err := parseDocument(raw)
	if err != nil {
		return err
	}
	return s.Output.one(out, s.Fields, n)
}
