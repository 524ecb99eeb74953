package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// Passthru calls a vendor method of a driver.
type Passthru struct {
	Of Resource
	// HTTPMethod is the HTTP method of the call; empty means POST.
	HTTPMethod string
	// Arguments are the members of the request's body.
	Arguments Values
	Output    Output
}

// PassthruFields are the flags for the arguments of the vendor method.
var PassthruFields = []Field{{Flag: "arg", Kind: Members, Help: "argument `KEY=VALUE` of the method; may be repeated"}}

// passthruMethods are the HTTP methods that the API accepts for calls, in upper case.
var passthruMethods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodGet, http.MethodDelete}

// Run calls the method of the node or driver ident and prints its answer. A method that continues
// after the call was accepted has no answer.
func (p *Passthru) Run(ctx context.Context, engine *ironic.Client, ident, method string, to Streams) error {
	verb, err := p.verb()
	if err != nil {
		return err
	}
	request := ironic.Request{
		Op:     fmt.Sprintf("call %q of %s %s", method, p.Of.Name, ident),
		Method: verb, Path: p.Of.path(ident, "vendor_passthru"), Query: url.Values{"method": {method}},
	}
	arguments := p.Arguments.Object()
	if len(arguments) > 0 || verb == http.MethodPost || verb == http.MethodPut || verb == http.MethodPatch {
		request.Body = arguments
	}
	answer, err := engine.Do(ctx, request)
	switch {
	case err != nil:
		return p.Of.advise(err)
	case answer == nil:
		kind := strings.ToUpper(p.Of.Name[:1]) + p.Of.Name[1:]
		_, err := fmt.Fprintf(to.Out, "%s %s: %s accepted\n", kind, printable(ident), printable(method))
		return err
	default:
		return p.Output.structured(to.Out, answer)
	}
}

func (p *Passthru) verb() (string, error) {
	verb := strings.ToUpper(p.HTTPMethod)
	for _, known := range passthruMethods {
		if verb == known || verb == "" {
			return known, nil
		}
	}
	return "", &UsageError{fmt.Errorf("--http-method is %q, it must be one of %s", p.HTTPMethod, strings.Join(passthruMethods, ", "))}
}
