package httpapi

import (
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
	targets []string // verbs that take the key
	read    func(*node.VerbRequest, json.RawMessage) error
}

// provisionKeys has every key besides target.
var provisionKeys = map[string]provisionKey{
	"configdrive":     {1, []string{"active", "deploy", "rebuild"}, readConfigDrive},
	"clean_steps":     {15, []string{"clean"}, readListedSteps},
	"rescue_password": {38, []string{"rescue"}, readRescuePassword},
	"deploy_steps":    {69, []string{"active", "deploy", "rebuild"}, readDeploySteps},
	"disable_ramdisk": {70, []string{"clean", "service"}, readDisableRamdisk},
	"service_steps":   {87, []string{"service"}, readListedSteps},
	"runbook":         {92, []string{"clean", "service", "active", "deploy", "rebuild"}, readRunbook},
}

// disableForServiceSince is the first microversion 1.N in which servicing takes
// disable_ramdisk.
const disableForServiceSince = 108

// Microversions 1.N in which abort became possible in one more state. Requests with older versions
// are refused in that state.
const (
	abortInspectionSince = 41
	abortDeploymentSince = 110
)

// provisionNode answers 202 when the verb is accepted. The client polls the node for
// the outcome.
func (a *api) provisionNode(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	leave, err := a.enterLargeBody(r)
	if err != nil {
		return err
	}
	defer leave()
	request, err := readVerb(w, r)
	if err == nil {
		err = a.checkAbort(r, ident, request.Verb)
	}
	if err != nil {
		return err
	}
	request.User = a.user(r)
	if err := a.engine.Provision(r.Context(), ident, request); err != nil {
		return fmt.Errorf("%s node %s: %w", request.Verb.Name, ident, err)
	}
	acceptedAt(w, c, ident, "/states")
	return nil
}

// acceptedAt answers 202 with the location of the outcome.
func acceptedAt(w http.ResponseWriter, c *call, ident, part string) {
	w.Header().Set("Location", c.base+"/v1/nodes/"+ident+part)
	w.WriteHeader(http.StatusAccepted)
}

// checkAbort refuses aborts that the version of the request does not support.
func (a *api) checkAbort(r *http.Request, ident string, verb node.Verb) error {
	version := versionOf(r)
	if verb.On != node.OnAbort || version >= abortDeploymentSince {
		return nil
	}
	n, err := a.engine.Node(r.Context(), ident)
	switch {
	case err != nil:
		return fmt.Errorf("abort node %s: %w", ident, err)
	case n.ProvisionState == node.DeployWait && n.Lease.InForce(a.now()):
		return n.Locked()
	case n.ProvisionState == node.DeployWait:
		return &node.TransitionError{Node: n.UUID, Verb: verb.Name, State: n.ProvisionState}
	case n.ProvisionState == node.InspectWait && version < abortInspectionSince:
		return notAcceptable("Aborting an inspection", abortInspectionSince)
	}
	return nil
}

// readVerb reads the body of states/provision and checks it against the
// version of the request.
func readVerb(w http.ResponseWriter, r *http.Request) (request node.VerbRequest, err error) {
	version := versionOf(r)
	var values map[string]json.RawMessage
	if err := decodeBody(w, r, maxProvisionBody, &values); err != nil {
		return request, err
	}
	target, err := readText(values["target"], maxText)
	if err != nil {
		return request, invalidField("target", err)
	}
	verb, ok := node.VerbNamed(target)
	if !ok {
		return request, badRequest("Unknown provision verb %q.", target)
	}
	if verb.Since > version {
		return request, notAcceptable(fmt.Sprintf("The provision verb %q", target), verb.Since)
	}
	request.Verb = verb
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name == "target" {
			continue
		}
		if err := readProvisionKey(&request, name, values[name], version); err != nil {
			return request, err
		}
	}
	return request, checkVerbRequest(request)
}

func readProvisionKey(request *node.VerbRequest, name string, raw json.RawMessage, version int) error {
	key, known := provisionKeys[name]
	target := request.Verb.Name
	since := key.since
	if name == "disable_ramdisk" && target == "service" {
		since = disableForServiceSince
	}
	switch {
	case known && isNull(raw):
		return nil
	case !known:
		return badRequest("Unknown key %q in a provision request.", name)
	case since > version:
		return notAcceptable(fmt.Sprintf("The key %q of a provision request", name), since)
	case !slices.Contains(key.targets, target):
		return badRequest("The key %q cannot be used with the provision verb %q; it can be used with %s.", name, target, node.Choices(key.targets))
	}
	if err := key.read(request, raw); err != nil {
		return invalidField(name, err)
	}
	return nil
}

// checkVerbRequest checks the rules that involve several keys of a request.
func checkVerbRequest(request node.VerbRequest) error {
	name := request.Verb.Name
	switch {
	case request.Steps != nil && request.Runbook != "":
		return badRequest("Steps and a runbook cannot be combined.")
	case (name == "clean" || name == "service") && request.Steps == nil && request.Runbook == "":
		return badRequest("The provision verb %q needs %s_steps or a runbook.", name, name)
	case name == "rescue" && request.RescuePassword == "":
		return badRequest("The provision verb \"rescue\" needs a rescue_password that is not empty.")
	}
	return node.CheckSteps(request.Steps)
}
