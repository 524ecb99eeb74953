package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/ingot-metal/ingot/internal/baremetal"
	"github.com/ingot-metal/ingot/internal/cli/explain"
)

// Explain prints where a host or a node stands, one sentence per line. The
// error carries only an exit code when there is nothing to explain: the text
// has said why.
func Explain(ctx context.Context, sources explain.Sources, asked string, out io.Writer) error {
	facts, err := sources.Gather(ctx, asked)
	if err != nil {
		return err
	}
	for _, sentence := range explain.Sentences(facts) {
		if _, err := fmt.Fprintln(out, printable(sentence)); err != nil {
			return err
		}
	}
	switch {
	case facts.Known():
		return nil
	case facts.NodeProblem != "":
		return &SilentError{Code: ExitCode(baremetal.ErrUnreachable)}
	case facts.HostProblem != "":
		return &SilentError{Code: ExitError}
	default:
		return &SilentError{Code: ExitNotFound}
	}
}
