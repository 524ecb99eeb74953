package agent

import (
	"context"
	"errors"
	"syscall"

	"github.com/ingot-metal/ingot/internal/node"
)

// Endpoint is where the agent of a node is called.
type Endpoint struct {
	Node     string // UUID, for errors
	URL      string // callback URL; empty when the agent never sent a heartbeat
	VerifyCA string // PEM of the certificate that the agent sent; empty when it sent none
}

// EndpointOf returns where the agent is called that has the node's token.
func EndpointOf(n *node.Node) Endpoint {
	return Endpoint{Node: n.UUID, URL: n.DriverInternalInfo.Text(URLKey), VerifyCA: n.DriverInternalInfo.Text(VerifyCAKey)}
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
