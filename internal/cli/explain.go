package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/ingot-metal/ingot/internal/cli/explain"
)

// Explain prints an explanation of the host or node with the name asked, one sentence per line.
// When there is nothing to explain, the text says why, and the error carries only the exit code.
func Explain(ctx context.Context, sources explain.Sources, asked string, out io.Writer) error {
	facts, err := sources.Gather(ctx, asked)
	if err != nil {
		return err
	}
	facts.NodeAdvice = hintFor(facts.NodeError)
	for _, sentence := range explain.Sentences(facts) {
		if _, err := fmt.Fprintln(out, printable(sentence)); err != nil {
			return err
		}
	}
	switch {
	case facts.Known():
		return nil
	case facts.NodeError != nil:
		return &SilentError{Code: ExitCode(facts.NodeError)}
	case facts.HostProblem != "":
		return &SilentError{Code: ExitError}
	default:
		return &SilentError{Code: ExitNotFound}
	}
}
