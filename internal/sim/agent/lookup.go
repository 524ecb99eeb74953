package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	lookupTimeout = 600 * time.Second // no pause begins after this time

	// Bounds of a random pause. The upper bound begins at the lower bound and doubles with each
	// attempt, up to lookupPauseMax.
	lookupPauseMin = time.Second
	lookupPauseMax = 60 * time.Second

	// tokenLength is the least length of a token.
	tokenLength = 32
	// tokenGiven is what the engine sends in place of a token that it has issued before.
	tokenGiven = "******"
	// defaultHeartbeatTimeout is used when the engine sends none.
	defaultHeartbeatTimeout = 300 * time.Second
)

// LookupError means that the engine returned no node in time.
type LookupError struct {
	Timeout time.Duration
	Last    string // outcome of the last attempt
}

// Error says what happened and what to do.
func (e *LookupError) Error() string {
	return fmt.Sprintf("the engine found no node for this machine within %s (last answer: %s); enable discovery or register the machine",
		e.Timeout, e.Last)
}

// lookupAnswer is the part of the lookup document that the agent uses.
type lookupAnswer struct {
	Node   *knownNode   `json:"node"`
	Config lookupConfig `json:"config"`
}

type lookupConfig struct {
	HeartbeatTimeout float64 `json:"heartbeat_timeout"` // seconds
	AgentToken       string  `json:"agent_token"`
	TokenRequired    bool    `json:"agent_token_required"`
	MD5Allowed       bool    `json:"agent_md5_checksum_enable"`
}

// heartbeatTimeout returns the time without a heartbeat after which the engine takes the agent for
// dead.
func (c lookupConfig) heartbeatTimeout() time.Duration {
	if c.HeartbeatTimeout <= 0 {
		return defaultHeartbeatTimeout
	}
	return time.Duration(c.HeartbeatTimeout * float64(time.Second))
}

// lockPauses are the pauses after the first, the second and each later answer 409, which means that
// the node is locked. The usual pause follows each of them.
var lockPauses = []time.Duration{5 * time.Second, 10 * time.Second, 30 * time.Second}

// lookup looks up the node of this machine until the engine returns one. When the timeout is over,
// the next attempt that fails is the last: lookup then returns a *LookupError. That attempt may
// begin after the timeout, because the timeout shortens no pause.
func (a *Agent) lookup(ctx context.Context, nodeUUID string) (*lookupAnswer, error) {
	query := url.Values{"addresses": {strings.Join(a.macs, ",")}}
	if nodeUUID != "" {
		query.Set("node_uuid", nodeUUID)
	}
	began, locked := a.clock.Now(), 0
	for bound := lookupPauseMin; ; bound = min(2*bound, lookupPauseMax) {
		found, status, trouble := a.lookupOnce(ctx, query)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if found != nil {
			return found, nil
		}
		if status == http.StatusConflict {
			pause := lockPauses[min(locked, len(lockPauses)-1)]
			locked++
			if err := Sleep(ctx, a.clock, pause); err != nil {
				return nil, err
			}
		}
		if a.clock.Since(began) >= lookupTimeout {
			return nil, &LookupError{Timeout: lookupTimeout, Last: trouble}
		}
		if err := Sleep(ctx, a.clock, a.random.between(lookupPauseMin, bound)); err != nil {
			return nil, err
		}
	}
}

// lookupOnce makes one attempt. If there is no result, reason says why.
func (a *Agent) lookupOnce(ctx context.Context, query url.Values) (found *lookupAnswer, status int, reason string) {
	version := min(a.engine.serverVersion(ctx), tokenAt)
	status, answer, err := a.engine.do(ctx, request{
		call: CallLookup, method: http.MethodGet, path: "/v1/lookup", query: query, version: version,
	})
	switch {
	case err != nil:
		return nil, status, err.Error()
	case status != http.StatusOK:
		return nil, status, fmt.Sprintf("%d %s", status, faultText(answer))
	}
	var parsed lookupAnswer
	if err := json.Unmarshal(answer, &parsed); err != nil {
		return nil, status, fmt.Sprintf("unreadable lookup document: %v", err)
	}
	if parsed.Node == nil || parsed.Node.UUID == "" {
		return nil, status, "a lookup document without a node"
	}
	return &parsed, status, ""
}

// acceptToken stores the token that the engine issued. It ignores text that is too short for a
// token. If the engine requires a token and did not issue one to this agent, acceptToken returns
// [ErrNoToken], provided that this version of the agent then leaves the network.
func (a *Agent) acceptToken(config lookupConfig) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokenRequired = a.tokenRequired || config.TokenRequired
	a.md5Allowed = config.MD5Allowed
	switch {
	case len(config.AgentToken) >= tokenLength:
		a.token = config.AgentToken
	case config.AgentToken == tokenGiven && a.token == "" && a.tokenRequired && a.behaves.leavesNetwork:
		return ErrNoToken
	}
	return nil
}
