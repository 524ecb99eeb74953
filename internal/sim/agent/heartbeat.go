package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

const (
	// Bounds of the time between the lookup and the first heartbeat. In this time, the real agent
	// makes its certificate, if it serves TLS, and starts its server.
	startUpMin = 50 * time.Millisecond
	startUpMax = 1200 * time.Millisecond

	// Bounds of the time between heartbeats, as parts of the engine's timeout.
	heartbeatShareMin = 0.3
	heartbeatShareMax = 0.6

	// Bounds of the pause after a heartbeat that the engine did not accept.
	heartbeatRetryMin = 5 * time.Second
	heartbeatRetryMax = 10 * time.Second

	// forcedGap is the least time between any heartbeat and a forced one.
	forcedGap = 5 * time.Second
)

// heartbeat is the body of POST /v1/heartbeat/{uuid}.
type heartbeat struct {
	CallbackURL string `json:"callback_url"`
	// AgentToken is a string or null; it is left out for engines without tokens.
	AgentToken    json.RawMessage `json:"agent_token,omitempty"`
	AgentVersion  string          `json:"agent_version,omitempty"`
	AgentVerifyCA string          `json:"agent_verify_ca,omitempty"` // PEM
}

// sendHeartbeats sends heartbeats until ctx ends, and returns the error of ctx. It continues when
// the engine refuses them, even if the node was deleted, because a node with these MAC addresses
// may be created again.
func (a *Agent) sendHeartbeats(ctx context.Context, server *apiServer, found *lookupAnswer) error {
	timeout := found.Config.heartbeatTimeout()
	if a.config.HeartbeatTimeout > 0 {
		timeout = a.config.HeartbeatTimeout
	}
	wait := a.random.between(startUpMin, startUpMax)
	for {
		if err := a.awaitHeartbeat(ctx, wait); err != nil {
			return err
		}
		taken, err := a.sendHeartbeat(ctx, server, found.Node.UUID)
		if err != nil {
			return err
		}
		if taken {
			wait = a.random.between(
				time.Duration(heartbeatShareMin*float64(timeout)),
				time.Duration(heartbeatShareMax*float64(timeout)))
		} else {
			wait = a.random.between(heartbeatRetryMin, heartbeatRetryMax)
		}
	}
}

// awaitHeartbeat waits until the next heartbeat is due: for wait, or for forcedGap if a command
// ends within wait.
func (a *Agent) awaitHeartbeat(ctx context.Context, wait time.Duration) error {
	regular := a.clock.NewTimer(wait)
	defer regular.Stop()
	gap := a.clock.NewTimer(forcedGap)
	defer gap.Stop()
	var forced, gapOver bool
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-regular.C():
			return nil
		case <-gap.C():
			gapOver = true
		case <-a.force:
			forced = true
		}
		if forced && gapOver {
			return nil
		}
	}
}

// forceHeartbeat requests a heartbeat before its usual time.
func (a *Agent) forceHeartbeat() {
	select {
	case a.force <- struct{}{}:
	default: // one is requested already
	}
}

// sendHeartbeat sends one heartbeat and reports whether the engine accepted it. Only status 202
// means that.
func (a *Agent) sendHeartbeat(ctx context.Context, server *apiServer, nodeUUID string) (bool, error) {
	version := a.engine.serverVersion(ctx)
	body := heartbeat{CallbackURL: server.url}
	if version >= tokenAt {
		body.AgentToken = a.tokenJSON()
	}
	if version >= agentVersionAt {
		body.AgentVersion = a.version
	}
	if version >= verifyCAAt {
		body.AgentVerifyCA = server.certificatePEM
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return false, fmt.Errorf("encode heartbeat: %w", err)
	}
	status, answer, err := a.engine.do(ctx, request{
		call: CallHeartbeat, method: http.MethodPost, path: "/v1/heartbeat/" + url.PathEscape(nodeUUID),
		version: min(version, verifyCAAt), body: encoded,
	})
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		a.log.Debug("Heartbeat got no answer", "node", nodeUUID, "err", err)
	case status != http.StatusAccepted:
		a.log.Debug("Heartbeat was refused", "node", nodeUUID, "status", status, "fault", faultText(answer))
	}
	return err == nil && status == http.StatusAccepted, nil
}

// tokenJSON returns the token as JSON; null if there is none.
func (a *Agent) tokenJSON() json.RawMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token == "" {
		return json.RawMessage("null")
	}
	text, err := json.Marshal(a.token)
	if err != nil { // a string can always be encoded
		panic(err)
	}
	return text
}
