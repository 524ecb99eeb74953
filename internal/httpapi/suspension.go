package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/ingot-metal/ingot/internal/node"
)

// ownPrefix is the beginning of the paths of requests that the Bare Metal API does not have. They
// have no microversions.
const ownPrefix = "/ingot/"

// Suspensions shows and ends what engines hold back until a person resumes it.
type Suspensions interface {
	// Suspension returns the zero value when nothing is suspended.
	Suspension(ctx context.Context) (node.Suspension, error)
	SuspendedNodes(ctx context.Context) ([]*node.SuspendedNode, error)
	// Resume resumes everything. It is idempotent.
	Resume(ctx context.Context, user string) error
	// ResumeNode and DropSuspended decide about the suspended work of one node. If there is none,
	// the error is a *node.ConflictError.
	ResumeNode(ctx context.Context, ident, user string) error
	DropSuspended(ctx context.Context, ident, user string) error
}

func (a *api) suspensionRoutes() []route {
	return []route{
		{method: get, pattern: ownPrefix + "suspension", role: reader, handler: a.showSuspension},
		{method: put, pattern: ownPrefix + "suspension", role: operator, handler: a.endSuspension},
		{method: get, pattern: ownPrefix + "suspension/nodes", role: reader, handler: a.listSuspendedNodes},
		{method: put, pattern: ownPrefix + "suspension/nodes/{ident}", role: operator, handler: a.endNodeSuspension},
	}
}

// suspensionDocument is the answer to GET suspension. Reason, detail and since are null
// when nothing is suspended.
type suspensionDocument struct {
	Suspended bool    `json:"suspended"`
	Reason    *string `json:"reason"`
	Detail    *string `json:"detail"` // for people
	Since     any     `json:"since"`
	Nodes     int     `json:"nodes"`     // nodes with suspended work
	Differing int     `json:"differing"` // nodes whose machine was seen in another power state
	EndedAt   any     `json:"ended_at"`  // end of the previous suspension
}

func (a *api) showSuspension(w http.ResponseWriter, r *http.Request) error {
	s, err := a.engine.Suspension(r.Context())
	if err != nil {
		return fmt.Errorf("read what is suspended: %w", err)
	}
	document := suspensionDocument{
		Suspended: s.InForce(), Since: timeValue(s.Since), Nodes: s.Nodes, Differing: s.Differing, EndedAt: timeValue(s.Ended),
	}
	if s.InForce() {
		reason := string(s.Reason)
		document.Reason, document.Detail = &reason, &s.Detail
	}
	return answerValue(w, document)
}

// suspendedNodeDocument is what waits on one node for a person's decision.
type suspendedNodeDocument struct {
	UUID               string   `json:"uuid"`
	Name               *string  `json:"name"`
	ProvisionState     string   `json:"provision_state"`
	Work               []string `json:"work"` // kinds of suspended work
	PowerState         *string  `json:"power_state"`
	ObservedPowerState *string  `json:"observed_power_state"` // null when no difference was seen
	ObservedAt         any      `json:"observed_at"`
}

func (a *api) listSuspendedNodes(w http.ResponseWriter, r *http.Request) error {
	nodes, err := a.engine.SuspendedNodes(r.Context())
	if err != nil {
		return fmt.Errorf("list suspended nodes: %w", err)
	}
	documents := make([]suspendedNodeDocument, len(nodes))
	for i, n := range nodes {
		documents[i] = suspendedNodeDocument{
			UUID: n.UUID, Name: textOrNull(n.Name), ProvisionState: string(n.ProvisionState), Work: append([]string{}, n.Work...),
			PowerState: textOrNull(string(n.PowerState)), ObservedPowerState: textOrNull(string(n.Observed)), ObservedAt: timeValue(n.ObservedAt),
		}
	}
	return answerValue(w, map[string]any{"nodes": documents})
}

func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// suspensionRequest is the body of PUT suspension.
type suspensionRequest struct {
	Target string `json:"target"`
}

func (a *api) endSuspension(w http.ResponseWriter, r *http.Request) error {
	var request suspensionRequest
	if err := decodeBody(w, r, maxBody, &request); err != nil {
		return err
	}
	if request.Target != "resume" {
		return badRequest("Unknown target %q; the known target is resume.", node.CutText(request.Target))
	}
	if err := a.engine.Resume(r.Context(), a.user(r)); err != nil {
		return fmt.Errorf("end suspension: %w", err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *api) endNodeSuspension(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	var request suspensionRequest
	if err := decodeBody(w, r, maxBody, &request); err != nil {
		return err
	}
	end, known := map[string]func(context.Context, string, string) error{
		"resume": a.engine.ResumeNode, "drop": a.engine.DropSuspended,
	}[request.Target]
	if !known {
		return badRequest("Unknown target %q; the known targets are resume, drop.", node.CutText(request.Target))
	}
	if err := end(r.Context(), ident, a.user(r)); err != nil {
		return fmt.Errorf("%s suspended work of node %s: %w", request.Target, ident, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// user returns the authenticated user of a request, "" when there are no users.
func (a *api) user(r *http.Request) string {
	if a.options.User == nil {
		return ""
	}
	return a.options.User(r.Context())
}
