package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// provisionKey is a key of the body of states/provision.
type provisionKey struct {
	since   int
	targets []string // verbs that take it
}

// provisionKeys is every key besides target.
var provisionKeys = map[string]provisionKey{
	"configdrive":     {1, []string{"active", "deploy", "rebuild"}},
	"clean_steps":     {15, []string{"clean"}},
	"rescue_password": {38, []string{"rescue"}},
	"deploy_steps":    {69, []string{"active", "deploy", "rebuild"}},
	"disable_ramdisk": {70, []string{"clean", "service"}},
	"service_steps":   {87, []string{"service"}},
	"runbook":         {92, []string{"clean", "service", "active", "deploy", "rebuild"}},
}

// builtVerbs are the verbs that the engine performs so far.
var builtVerbs = []string{"manage", "provide"}

// provisionNode answers 202 once the verb is accepted; the client polls the
// node for the outcome.
func (a *api) provisionNode(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	verb, err := readVerb(w, r)
	if err != nil {
		return err
	}
	if !slices.Contains(builtVerbs, verb.Name) {
		return a.refuseVerb(r, ident, verb)
	}
	if err := a.engine.Provision(r.Context(), ident, verb); err != nil {
		return fmt.Errorf("%s node %s: %w", verb.Name, ident, err)
	}
	w.Header().Set("Location", c.base+"/v1/nodes/"+ident+"/states")
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// readVerb reads the body of states/provision and checks it against the
// version of the request.
func readVerb(w http.ResponseWriter, r *http.Request) (node.Verb, error) {
	version := versionOf(r)
	var values map[string]json.RawMessage
	if err := decodeBody(w, r, maxProvisionBody, &values); err != nil {
		return node.Verb{}, err
	}
	target, err := readText(values["target"], maxText)
	if err != nil {
		return node.Verb{}, invalidField("target", err)
	}
	verb, ok := node.VerbNamed(target)
	if !ok {
		return verb, badRequest("There is no provision verb %q.", target)
	}
	if verb.Since > version {
		return verb, notAcceptable(fmt.Sprintf("The provision verb %q", target), verb.Since)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		key, known := provisionKeys[name]
		switch {
		case name == "target" || known && isNull(values[name]):
		case !known:
			return verb, badRequest("Unknown key %q in a provision request.", name)
		case key.since > version:
			return verb, notAcceptable(fmt.Sprintf("The key %q of a provision request", name), key.since)
		case !slices.Contains(key.targets, target):
			return verb, badRequest("The key %q does not go with the provision verb %q; it goes with %q.", name, target, key.targets)
		}
	}
	return verb, nil
}

// refuseVerb answers a verb that the engine cannot perform yet. A verb that the
// node's state does not allow is refused for that reason.
func (a *api) refuseVerb(r *http.Request, ident string, verb node.Verb) error {
	n, err := a.engine.Node(r.Context(), ident)
	if err != nil {
		return fmt.Errorf("%s node %s: %w", verb.Name, ident, err)
	}
	if _, ok := node.Next(n.ProvisionState, verb.On); !ok {
		if n.Lease.Held(a.now()) {
			return &node.LockedError{Node: n.UUID, Owner: n.Lease.Owner}
		}
		return &node.TransitionError{Node: n.UUID, Verb: verb.Name, State: n.ProvisionState}
	}
	return notImplemented("The provision verb %q is part of this API version but not built yet in this engine.", verb.Name)
}

// maintenanceRequest is the body of PUT maintenance; there may be none.
type maintenanceRequest struct {
	Reason *string `json:"reason"` // for people; null and "" are the same
}

func (a *api) startMaintenance(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	var request maintenanceRequest
	if len(bytes.TrimSpace(body)) > 0 {
		if err := decode(body, &request); err != nil {
			return err
		}
	}
	reason := ""
	if request.Reason != nil {
		reason = *request.Reason
	}
	if len(reason) > maxReason {
		return badRequest("The reason must have at most %d bytes, got %d.", maxReason, len(reason))
	}
	return a.setMaintenance(w, r, ident, true, reason)
}

func (a *api) endMaintenance(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	return a.setMaintenance(w, r, ident, false, "")
}

func (a *api) setMaintenance(w http.ResponseWriter, r *http.Request, ident string, on bool, reason string) error {
	if err := a.engine.SetMaintenance(r.Context(), ident, on, reason); err != nil {
		return fmt.Errorf("set maintenance of node %s: %w", ident, err)
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}
