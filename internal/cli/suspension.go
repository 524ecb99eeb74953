package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// suspensionPath is the path under which Ingot's engine shows suspended work.
const suspensionPath = "suspension"

// suspensionFields are the fields of a suspension that a table shows, in this order.
var suspensionFields = []string{"suspended", "reason", "detail", "since", "nodes", "differing", "ended_at"}

// suspendedColumns are the columns of a table of nodes with suspended work.
var suspendedColumns = []string{"uuid", "name", "provision_state", "work", "power_state", "observed_power_state"}

// ShowSuspension prints what an engine has suspended until a person resumes or drops it.
func ShowSuspension(ctx context.Context, engine *ironic.Client, output Output, out io.Writer) error {
	raw, err := engine.Read(ctx, ironic.Request{Op: "show suspension", Own: true, Path: []string{suspensionPath}})
	if err != nil {
		return adviseSuspension(err)
	}
	return output.document(out, suspensionFields, raw)
}

// ListSuspended prints the nodes whose work is suspended, or whose machine differs from what the
// database says.
func ListSuspended(ctx context.Context, engine *ironic.Client, output Output, out io.Writer) error {
	raw, err := engine.Read(ctx, ironic.Request{Op: "list suspended nodes", Own: true, Path: []string{suspensionPath, "nodes"}})
	if err != nil {
		return adviseSuspension(err)
	}
	var answer struct {
		Nodes json.RawMessage `json:"nodes"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("list suspended nodes: %w", err)
	}
	nodes, err := objectRows(answer.Nodes, nil)
	if err != nil {
		return fmt.Errorf("list suspended nodes: %w", err)
	}
	return output.list(out, suspendedColumns, nodes)
}

// EndSuspension decides on suspended work.
type EndSuspension struct {
	Target string // "resume" or "drop"
	Done   string // what has happened to the work of a node
	All    bool   // all nodes that are left, instead of chosen nodes
}

// Run decides on the work of nodes.
func (e *EndSuspension) Run(ctx context.Context, engine *ironic.Client, idents []string, to Streams) error {
	request := ironic.Request{Method: http.MethodPut, Own: true, Body: map[string]string{"target": e.Target}}
	switch {
	case e.All && len(idents) > 0:
		return &UsageError{errors.New("name nodes or give --all, not both")}
	case e.All:
		request.Op, request.Path = "end suspension", []string{suspensionPath}
		if _, err := engine.Do(ctx, request); err != nil {
			return adviseSuspension(err)
		}
		_, err := fmt.Fprintln(to.Out, "All suspended work goes on, and power states are restored again")
		return err
	case len(idents) == 0 && e.Target == "resume":
		return &UsageError{errors.New("name nodes, or give --all for all that are left")}
	case len(idents) == 0 || slices.Contains(idents, ""):
		return &UsageError{errors.New("name the nodes whose suspended work is meant")}
	}
	return requestThenWait(ctx, idents, Wait{}, to, func(ident string) error {
		request.Op, request.Path = e.Target+" suspended work of node "+ident, []string{suspensionPath, "nodes", ident}
		if _, err := engine.Do(ctx, request); err != nil {
			return err
		}
		_, err := fmt.Fprintf(to.Out, "Node %s: %s\n", printable(ident), e.Done)
		return err
	}, nil)
}

// adviseSuspension adds the reason why an engine may not know of suspensions.
func adviseSuspension(err error) error {
	if !errors.Is(err, ironic.ErrNotFound) {
		return err
	}
	return &AdvisedError{Err: err, Advice: "Only engines of Ingot have this, from the version on that suspends work."}
}
