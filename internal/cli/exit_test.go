package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/ironic"
)

func TestErrorsBecomeOneLineAndACode(t *testing.T) {
	engineError := func(kind error, op, message string) error {
		return &ironic.Error{Op: op, Kind: kind, Message: message, Cause: io.EOF}
	}
	for name, test := range map[string]struct {
		err  error
		want string
		code int
	}{
		"not found": {
			engineError(ironic.ErrNotFound, "show node x", "Node x could not be found."),
			"Cannot show node x: Node x could not be found. See what the engine has with: ingot node list.", ExitNotFound,
		},
		"conflict": {
			engineError(ironic.ErrConflict, "delete node x", "Node x is locked."),
			"Cannot delete node x: Node x is locked. Work on the node may be under way: try again, or see ingot explain.", ExitBusy,
		},
		"overloaded": {
			engineError(ironic.ErrOverloaded, "manage node x", ""),
			"Cannot manage node x: engine is overloaded. Try again in a moment.", ExitBusy,
		},
		"unreachable": {
			engineError(ironic.ErrUnreachable, "list nodes", "http://h:1: connection refused"),
			"Cannot list nodes: engine is unreachable: http://h:1: connection refused. Start an engine with ingot up or ingot engine, or name another one with --os-endpoint or OS_ENDPOINT.",
			ExitUnreachable,
		},
		"untrusted": {
			&ironic.Error{Op: "list nodes", Kind: ironic.ErrUnreachable, Message: "https://h: certificate is not trusted: x", Cause: &tls.CertificateVerificationError{Err: io.EOF}},
			"Cannot list nodes: engine is unreachable: https://h: certificate is not trusted: x. Name the file of the authority that signed it with --os-cacert or OS_CACERT.",
			ExitUnreachable,
		},
		"no TLS": {
			&ironic.Error{Op: "list nodes", Kind: ironic.ErrUnreachable, Message: "https://h: use http://", Cause: http.ErrSchemeMismatch},
			"Cannot list nodes: engine is unreachable: https://h: use http://.", ExitUnreachable,
		},
		"without credentials": {
			&ironic.Error{Op: "list nodes", Kind: ironic.ErrDenied, Status: 401, Message: "Who are you"},
			"Cannot list nodes: Who are you. Put the name and the password of a user of the engine into OS_USERNAME and OS_PASSWORD.", ExitError,
		},
		"forbidden": {
			&ironic.Error{Op: "undeploy node x", Kind: ironic.ErrDenied, Status: 403, Message: "Node x is protected."},
			"Cannot undeploy node x: Node x is protected.", ExitError,
		},
		"advised": {
			&AdvisedError{Err: engineError(ironic.ErrConflict, "create node", "A node with name n1 already exists."), Code: ExitError},
			"Cannot create node: A node with name n1 already exists.", ExitError,
		},
		"rejected":    {engineError(ironic.ErrRejected, "manage node x", "bad\x1b[2J"), `Cannot manage node x: bad\x1b[2J.`, ExitError},
		"usage":       {&UsageError{errors.New("unknown flag: --x")}, "Unknown flag: --x. See --help.", ExitUsage},
		"usage of":    {&UsageError{errors.New("ingot node show: accepts 1 arg(s)")}, "ingot node show: accepts 1 arg(s). See --help.", ExitUsage},
		"interrupted": {fmt.Errorf("list nodes: %w", context.Canceled), "Interrupted.", ExitInterrupted},
		"other":       {errors.New("écrire"), "Écrire.", ExitError},
		"key":         {errors.New("auto_discovery.driver: is required"), "auto_discovery.driver: is required.", ExitError},
		"several":     {errors.Join(errors.New("api.auth: no"), errors.New("try:\n\ta\n\n\tb")), "api.auth: no; try: a; b.", ExitError},
		"silent":      {&SilentError{ExitBusy}, "", ExitBusy},
		"none":        {nil, "", ExitOK},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			code := Report(&out, test.err)
			if got := strings.TrimSuffix(out.String(), "\n"); got != test.want || code != test.code {
				t.Errorf("got  %d %q\nwant %d %q", code, got, test.code, test.want)
			}
		})
	}
}

func TestPrintableLeavesNothingForATerminalToActOn(t *testing.T) {
	for text, want := range map[string]string{
		"plain Ünïcode 漢字": "plain Ünïcode 漢字",
		"\x1b[31m":         `\x1b[31m`,
		"a\nb\tc\rd":       `a\nb\tc\x0dd`,
		"\u009b2J":         `\x9b2J`,
		"\u202eabc\u2066":  `\u202eabc\u2066`,
		"\u2028":           `\u2028`,
		"\xff\xfe":         `\xff\xfe`,
		"\ufffd":           "\ufffd",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func FuzzPrintableIsHarmless(f *testing.F) {
	f.Add("\x1b]0;x\x07")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range printable(text) {
			if r != '\ufffd' && active(r) {
				t.Errorf("%q still holds %U", printable(text), r)
			}
		}
	})
}
