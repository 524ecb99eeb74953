package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// Create creates one object and prints it.
type Create struct {
	Resource Resource
	Values   Values
	Output   Output
	// Wait is only for an allocation: the command then waits until the engine has found a node or
	// failed to.
	Wait Wait
}

// Run creates the object and prints it to to.Out as the engine returned it.
func (c *Create) Run(ctx context.Context, engine *ironic.Client, to Streams) error {
	if err := missing("ingot "+c.Resource.Name+" create", c.Resource.Fields, c.Values.Object()); err != nil {
		return err
	}
	if err := c.Values.resolve(ctx, engine); err != nil {
		return err
	}
	raw, err := engine.Do(ctx, ironic.Request{
		Op: "create " + c.Resource.Name, Method: http.MethodPost, Path: c.Resource.path(), Body: c.Values.Object(),
	})
	if err != nil {
		return adviseExisting(err)
	}
	if c.Wait.Asked {
		created, err := parseDocument(raw)
		if err != nil {
			return err
		}
		if raw, err = waitForAllocation(ctx, engine, created.text("uuid"), c.Wait, to); err != nil {
			return err
		}
	}
	return c.Output.document(to.Out, nil, raw)
}

// adviseExisting removes the usual advice from a conflict: if the object exists already, trying
// again does not help.
func adviseExisting(err error) error {
	if errors.Is(err, ironic.ErrConflict) {
		return &AdvisedError{Err: err, Code: ExitError}
	}
	return err
}

// missing returns an error that names a required field without a value.
func missing(command string, fields []Field, given map[string]any) error {
	for _, f := range fields {
		if _, ok := given[f.Name]; f.Required && !ok {
			return &UsageError{fmt.Errorf("%s needs --%s", command, f.Flag)}
		}
	}
	return nil
}

// Update changes fields of objects: it sets them, or removes them with Unset.
type Update struct {
	Resource Resource
	Values   Values
	Unset    bool
	// ResetInterfaces recomputes the interfaces of a node whose driver is
	// changed.
	ResetInterfaces bool
}

// Run patches the objects one after the other. An object that cannot be changed does not stop the
// others.
func (u *Update) Run(ctx context.Context, engine *ironic.Client, idents []string, to Streams) error {
	if u.Values.Empty() {
		return &UsageError{errors.New("there is nothing to change; name at least one field")}
	}
	if err := u.Values.resolve(ctx, engine); err != nil {
		return err
	}
	op := opAdd
	if u.Unset {
		op = opRemove
	}
	query := url.Values{}
	if u.ResetInterfaces {
		query.Set("reset_interfaces", "true")
	}
	return eachNode(idents, len(idents) == 1, to.Err, func(ident string) error {
		for _, request := range u.requests(ident, op, query) {
			if _, err := engine.Do(ctx, request); err != nil {
				return u.Resource.advise(err)
			}
		}
		return printDone(to.Out, nil, "Updated %s %s\n", u.Resource.Name, ident)
	})
}

// requests returns one patch for most fields, and one request for each of the others.
func (u *Update) requests(ident, op string, query url.Values) []ironic.Request {
	what := "update " + u.Resource.Name + " " + ident
	var all []ironic.Request
	if patch := u.Values.patch(op); len(patch) > 0 {
		all = append(all, ironic.Request{Op: what, Method: http.MethodPatch, Path: u.Resource.path(ident), Query: query, Body: patch})
	}
	for _, c := range u.Values.changes {
		if c.put != "" {
			path := u.Resource.path(append([]string{ident}, strings.Split(c.put, "/")...)...)
			all = append(all, ironic.Request{Op: what, Method: http.MethodPut, Path: path, Body: c.value})
		}
	}
	return all
}

// Delete deletes objects one after the other. An object that cannot be deleted does not stop the
// others; its failure is reported on its own line.
func Delete(ctx context.Context, engine *ironic.Client, resource Resource, idents []string, to Streams) error {
	return eachNode(idents, len(idents) == 1, to.Err, func(ident string) error {
		_, err := engine.Do(ctx, ironic.Request{
			Op: "delete " + resource.Name + " " + ident, Method: http.MethodDelete, Path: resource.path(ident),
		})
		return printDone(to.Out, resource.advise(err), "Deleted %s %s\n", resource.Name, ident)
	})
}

// printDone prints what was done to an object, unless err is set. It returns err.
func printDone(out io.Writer, err error, format, kind, ident string) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, format, kind, printable(ident))
	return err
}
