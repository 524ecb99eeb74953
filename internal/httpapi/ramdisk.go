package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Microversions 1.N that introduced parts of the ramdisk protocol.
const (
	agentVersionSince = 36
	agentTokenSince   = 62
	verifyCASince     = 68
	agentStatusSince  = 72
	lookupShapeSince  = 84 // continue_inspection answers like lookup, with a token
)

// errUnknownMachine is the answer to every machine that the engine does not serve. It does not give
// the reason, because machines are not authenticated.
var errUnknownMachine = &apiError{
	status:  http.StatusNotFound,
	message: "The requested resource could not be found.",
}

// ramdiskMiddleware wraps the handlers for unauthenticated machines. It refuses all
// requests when the ramdisk endpoints are disabled, and removes the reasons of 404 and
// 503 answers and the names in 409 answers.
func (a *api) ramdiskMiddleware(handle apiHandler) apiHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if a.options.DisableRamdisk {
			return &node.ForbiddenError{Reason: "The endpoints for ramdisks are disabled on this engine."}
		}
		err := handle(w, r)
		switch {
		case errors.Is(err, node.ErrNotFound):
			return errUnknownMachine
		case errors.Is(err, node.ErrLocked):
			return node.ErrLocked // without the names of node and owner
		case errors.Is(err, node.ErrUnavailable):
			return &apiError{status: http.StatusServiceUnavailable, message: "The engine cannot process this now, please retry.", cause: err}
		}
		return err
	}
}

// maxLookupAddresses is how many addresses a lookup may have. Machines have fewer interfaces.
const maxLookupAddresses = 256

func (a *api) lookup(w http.ResponseWriter, r *http.Request, turn *ramdiskTurn) error {
	c := callOf(r)
	request := node.LookupRequest{NodeUUID: strings.ToLower(c.query.Get("node_uuid")), WantsToken: c.version >= agentTokenSince, Source: sourceOf(r, a.options.TrustedProxies)}
	if request.NodeUUID != "" && !isUUID(request.NodeUUID) {
		return badRequest("Invalid value for argument node_uuid: want a UUID, got %q", request.NodeUUID)
	}
	if request.NodeUUID == "" { // with node_uuid, addresses are not needed
		addresses := listArg(c.query, "addresses")
		if len(addresses) > maxLookupAddresses {
			return badRequest("A lookup has %d addresses, more than %d; send node_uuid instead.", len(addresses), maxLookupAddresses)
		}
		for _, text := range addresses {
			if mac, ok := node.ParseMAC(text); ok {
				request.Addresses = append(request.Addresses, mac)
			}
		}
	}
	if request.NodeUUID == "" && len(request.Addresses) == 0 {
		return badRequest("A lookup needs at least one valid MAC address in addresses, or node_uuid.")
	}
	var found *node.LookupAnswer
	err := turn.do(r.Context(), func(ctx context.Context) (err error) {
		found, err = a.engine.Lookup(ctx, request)
		return err
	})
	if err != nil {
		return fmt.Errorf("look up ramdisk: %w", err)
	}
	return a.writeLookup(w, c, http.StatusOK, found) // agents accept no other status
}

// lookupFields are the fields of the node that its ramdisk gets.
var lookupFields = []*field[node.Node]{
	nodeTable.byName["uuid"], nodeTable.byName["properties"], nodeTable.byName["instance_info"],
	nodeTable.byName["driver_internal_info"], nodeTable.byName["links"],
}

// forRamdisk returns a copy of a node with only what its ramdisk may read.
func (a *api) forRamdisk(n *node.Node) *node.Node {
	shown := *n
	for _, o := range []*node.Object{&shown.Properties, &shown.InstanceInfo, &shown.DriverInternalInfo} {
		*o = appendMasked(nil, node.RamdiskKeys(*o, a.options.LookupKeys), maskSecrets)
	}
	return &shown
}

// lookupConfig is the part of the configuration that is the same for every ramdisk. It
// follows heartbeat_timeout, agent_token, agent_skip_bmc_detect and agent_md5_checksum_enable.
const lookupConfig = `,"agent_token_required":true,"disable_deep_image_inspection":false,` +
	`"permitted_image_formats":["raw","gpt","qcow2","iso"],` +
	`"metrics":{"backend":"noop","prepend_host":false,"prepend_uuid":false,"prepend_host_reverse":true,"global_prefix":null},` +
	`"metrics_statsd":{"statsd_host":"localhost","statsd_port":8125}}}`

// writeLookup answers a ramdisk with its node and configuration.
func (a *api) writeLookup(w http.ResponseWriter, c *call, status int, found *node.LookupAnswer) error {
	v := a.viewOf(c)
	token := found.Token
	if token == "" {
		token = mask
	}
	return answer(w, status, func(dst []byte) []byte {
		dst = append(dst, `{"node":`...)
		dst = appendItem(dst, v, a.forRamdisk(found.Node), lookupFields)
		dst = fmt.Appendf(dst, `,"config":{"heartbeat_timeout":%d,"agent_token":`, int(found.HeartbeatTimeout.Seconds()))
		dst = appendString(dst, token)
		dst = append(dst, `,"agent_skip_bmc_detect":`...)
		dst = appendBool(dst, found.SkipBMCDetect)
		dst = append(dst, `,"agent_md5_checksum_enable":`...)
		dst = appendBool(dst, a.options.AllowMD5)
		return append(dst, lookupConfig...)
	})
}

// heartbeatRequest is the body of a heartbeat.
type heartbeatRequest struct {
	CallbackURL        *string `json:"callback_url"`
	AgentVersion       string  `json:"agent_version"`
	AgentToken         string  `json:"agent_token"`
	AgentVerifyCA      string  `json:"agent_verify_ca"`
	AgentStatus        string  `json:"agent_status"`
	AgentStatusMessage string  `json:"agent_status_message"`
}

// heartbeat answers 202, the only status that agents accept.
func (a *api) heartbeat(w http.ResponseWriter, r *http.Request, turn *ramdiskTurn) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	body, err := readBody(w, r, maxHeartbeatBody)
	if err != nil {
		return err
	}
	var request heartbeatRequest
	if err := turn.decode(r.Context(), body, &request); err != nil {
		return err
	}
	beat, reason, err := request.check(versionOf(r))
	if err != nil {
		// Without room the refusal is not recorded; the answer is the same.
		_ = turn.do(r.Context(), func(ctx context.Context) error {
			a.engine.HeartbeatRefused(ctx, ident, reason, request.callback())
			return nil
		})
		return err
	}
	if err := turn.do(r.Context(), func(ctx context.Context) error { return a.engine.Heartbeat(ctx, ident, beat) }); err != nil {
		return fmt.Errorf("accept heartbeat of node %s: %w", ident, err)
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

func (request heartbeatRequest) callback() string {
	if request.CallbackURL == nil {
		return ""
	}
	return *request.CallbackURL
}

// check checks everything about a heartbeat that does not depend on the node. If there is an error,
// the reason is the one to record.
func (request heartbeatRequest) check(version int) (node.Heartbeat, node.RefusalReason, error) {
	callback := request.callback()
	for _, part := range []struct {
		name, value string
		since, max  int // microversion; bytes
	}{
		{"callback_url", callback, minVersion, 1024},
		{"agent_version", request.AgentVersion, agentVersionSince, 255},
		{"agent_token", request.AgentToken, agentTokenSince, 255},
		{"agent_verify_ca", request.AgentVerifyCA, verifyCASince, 16 << 10},
		{"agent_status", request.AgentStatus, agentStatusSince, 255},
		{"agent_status_message", request.AgentStatusMessage, agentStatusSince, 64 << 10},
	} {
		switch {
		case part.value != "" && version < part.since:
			return node.Heartbeat{}, node.RefusedVersion, badRequest("The key %q of a heartbeat needs API version 1.%d or newer.", part.name, part.since)
		case len(part.value) > part.max:
			return node.Heartbeat{}, node.RefusedMalformed, badRequest("The key %q of a heartbeat has %d bytes, more than %d.", part.name, len(part.value), part.max)
		}
	}
	switch {
	case request.CallbackURL == nil:
		return node.Heartbeat{}, node.RefusedMalformed, badRequest("A heartbeat needs a callback_url.")
	case request.AgentVersion == "" && version >= agentVersionSince:
		return node.Heartbeat{}, node.RefusedVersion, badRequest("A heartbeat needs an agent_version.")
	}
	if u, err := url.Parse(callback); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return node.Heartbeat{}, node.RefusedURL, badRequest("Invalid value for \"callback_url\": want an http or https URL, got %q", node.CutText(callback))
	}
	switch request.AgentStatus {
	case "", "start", "end", "error":
	default:
		return node.Heartbeat{}, node.RefusedMalformed, badRequest("Invalid value for \"agent_status\": want start, end or error, got %q", node.CutText(request.AgentStatus))
	}
	return node.Heartbeat{
		CallbackURL: callback, AgentVersion: request.AgentVersion, AgentToken: request.AgentToken,
		AgentVerifyCA: request.AgentVerifyCA, AgentStatus: request.AgentStatus,
		AgentStatusMessage: request.AgentStatusMessage,
	}, "", nil
}

// continueInspection accepts the document of a ramdisk. Agents send no version header here, so they
// get only the UUID of the node.
func (a *api) continueInspection(w http.ResponseWriter, r *http.Request, turn *ramdiskTurn) error {
	c := callOf(r)
	nodeUUID := strings.ToLower(c.query.Get("node_uuid"))
	if nodeUUID != "" && !isUUID(nodeUUID) {
		return badRequest("Invalid value for argument node_uuid: want a UUID, got %q", nodeUUID)
	}
	body, err := readBody(w, r, maxInspectionBody)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return badRequest("The request needs a JSON body with an inventory.")
	}
	var found *node.LookupAnswer
	err = turn.store(r.Context(), body, func(ctx context.Context) (err error) {
		found, err = a.engine.ContinueInspection(ctx, node.InspectionPost{
			Body: body, NodeUUID: nodeUUID, WantsToken: c.version >= lookupShapeSince, Source: sourceOf(r, a.options.TrustedProxies),
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("accept inspection data: %w", retriedByAgents(err))
	}
	status := cmp.Or(a.options.InspectionStatus, http.StatusOK)
	if c.version >= lookupShapeSince {
		return a.writeLookup(w, c, status, found)
	}
	return answer(w, status, func(dst []byte) []byte {
		dst = append(dst, `{"uuid":`...)
		dst = appendString(dst, found.Node.UUID)
		return append(dst, '}')
	})
}

// retriedByAgents turns errors that are a 409 for other requests into a 503. Only new releases of
// the agent post again after a 409; older ones go on without inspection.
func retriedByAgents(err error) error {
	if errors.Is(err, node.ErrLocked) || errors.Is(err, node.ErrLeaseLost) {
		return fmt.Errorf("the node is busy: %w", node.ErrBusy)
	}
	return err
}
