package agent

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"syscall"

	"github.com/ingot-metal/ingot/internal/node"
)

// Endpoint is where the agent of a node is called.
type Endpoint struct {
	Node     string // UUID, for errors
	URL      string // callback URL; empty when the agent never sent a heartbeat
	VerifyCA string // PEM of the certificate that the agent sent; empty when it sent none
	// Authorities is the file of which the certificate must be of an agent that sent none; empty
	// means that any is trusted. What is no absolute path trusts nobody.
	Authorities string
}

// EndpointOf returns where the agent is called that has the node's token.
func EndpointOf(n *node.Node) Endpoint {
	e := Endpoint{Node: n.UUID, URL: n.DriverInternalInfo.Text(URLKey), VerifyCA: n.DriverInternalInfo.Text(VerifyCAKey)}
	if e.VerifyCA == "" {
		e.Authorities = authoritiesOf(n)
	}
	return e
}

// CheckAuthorities returns a *node.ValidationError when agent_verify_ca in driver_info is neither
// a boolean nor an absolute path.
func CheckAuthorities(n *node.Node) error {
	if file := authoritiesOf(n); file == "" || file == "true" || strings.HasPrefix(file, "/") {
		return nil
	}
	return node.Invalid("The %s in driver_info of node %s must be false or the absolute path of a file of certificate authorities.", VerifyCAKey, n.UUID)
}

// authoritiesOf reads agent_verify_ca of driver_info: a file, or empty for false and for nothing.
func authoritiesOf(n *node.Node) string {
	raw, ok := n.DriverInfo.Fields()[VerifyCAKey]
	text := cmp.Or(n.DriverInfo.Text(VerifyCAKey), string(raw))
	on, err := strconv.ParseBool(text)
	switch {
	case !ok, text == "null", text == `""`, err == nil && !on:
		return ""
	case err == nil:
		return "true"
	}
	return text
}

// Call is what a call to an agent showed. The zero value means that nobody was called.
type Call struct {
	Token string // of the agent that was called; heartbeats cannot change the endpoint of a token
	Reply Reply
}

// Reply is the result of a call.
type Reply string

// Replies.
const (
	NotCalled Reply = ""          // the call was not made, or failed on the engine's side
	Answered  Reply = "answered"  // the agent lives
	NoAnswer  Reply = "no answer" // nothing at the endpoint is this agent
)

// ErrNotCalled is in the chain of errors that say nothing about the agent.
var ErrNotCalled = errors.New("the agent was not called")

// ownFaults are failures of a call that lie on the engine's machine, where somebody who
// opens many connections can cause them. An engine that is stopped cancels its calls.
var ownFaults = []error{
	ErrNotCalled, context.Canceled, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL,
}

// ReplyOf returns what the error of a call says about the agent; nil means that it
// answered. Refused, timed out, unreachable or with another certificate: each means that
// the agent is gone.
func ReplyOf(err error) Reply {
	if err == nil {
		return Answered
	}
	for _, own := range ownFaults {
		if errors.Is(err, own) {
			return NotCalled
		}
	}
	return NoAnswer
}
