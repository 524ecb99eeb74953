package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ingot-metal/ingot/internal/cli"
)

// bmcPassword is the environment variable with the password of a BMC. There is no flag for the
// password, because other users can see the arguments of a process.
const bmcPassword = "INGOT_BMC_PASSWORD" //nolint:gosec // the name of a variable

// maxPassword is the largest size of a file with a password, in bytes.
const maxPassword = 4 << 10

// readBMCPassword reads the password from a file, the environment or the terminal. Without a user
// it does not ask at the terminal.
func readBMCPassword(ctx context.Context, cmd *cobra.Command, file, user string) (string, error) {
	switch text, given := os.LookupEnv(bmcPassword); {
	case file == "-":
		return firstLine(cmd.InOrStdin())
	case file != "":
		from, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("read the password (--password-file): %w", err)
		}
		defer from.Close()
		return firstLine(from)
	case user == "":
		return "", nil
	case given:
		return text, nil
	case cmd.InOrStdin() != os.Stdin || !term.IsTerminal(int(os.Stdin.Fd())):
		return "", &cli.UsageError{Err: errors.New("the password is missing: put it into a file (--password-file) or into " + bmcPassword)}
	}
	return askPassword(ctx, cmd, user)
}

// firstLine returns the first line of a text.
func firstLine(from io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxPassword+1))
	switch line, _, _ := strings.Cut(string(text), "\n"); {
	case err != nil:
		return "", fmt.Errorf("read the password (--password-file): %w", err)
	case len(text) > maxPassword:
		return "", fmt.Errorf("read the password (--password-file): there are more than %d bytes", maxPassword)
	default:
		return strings.TrimSuffix(line, "\r"), nil
	}
}

// askPassword asks at the terminal without showing what is typed. The end of ctx ends the question,
// and the terminal shows input again.
func askPassword(ctx context.Context, cmd *cobra.Command, user string) (string, error) {
	terminal := int(os.Stdin.Fd())
	before, err := term.GetState(terminal)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Password of %s: ", user)
	defer fmt.Fprintln(cmd.ErrOrStderr())
	type answer struct {
		text []byte
		err  error
	}
	answered := make(chan answer, 1)
	go func() { // ends with the process if nobody answers
		text, err := term.ReadPassword(terminal)
		answered <- answer{text, err}
	}()
	select {
	case <-ctx.Done():
		_ = term.Restore(terminal, before) // nothing else can be done
		return "", ctx.Err()
	case got := <-answered:
		if got.err != nil {
			return "", fmt.Errorf("read the password: %w", got.err)
		}
		return string(got.text), nil
	}
}
