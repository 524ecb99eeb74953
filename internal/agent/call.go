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
	URL      string // callback URL; empty if the agent never sent a heartbeat
	VerifyCA string // PEM certificate that the agent sent; empty if it sent none
	// Authorities is for an agent that sent no certificate. It is the file of the authorities that
	// must have signed the certificate. Empty means that any certificate is trusted. A value that
	// is no absolute path means that no certificate is trusted.
	Authorities string
}

// EndpointOf returns the endpoint of the agent that has the node's token.
func EndpointOf(n *node.Node) Endpoint {
	e := Endpoint{Node: n.UUID, URL: n.DriverInternalInfo.Text(URLKey), VerifyCA: n.DriverInternalInfo.Text(VerifyCAKey)}
	if e.VerifyCA == "" {
		e.Authorities = authoritiesOf(n)
	}
	return e
}

// CheckAuthorities returns a *node.ValidationError if agent_verify_ca in driver_info is neither a
// boolean nor an absolute path.
func CheckAuthorities(n *node.Node) error {
	if file := authoritiesOf(n); file == "" || file == "true" || strings.HasPrefix(file, "/") {
		return nil
	}
	return node.Invalid("The %s in driver_info of node %s must be false or the absolute path of a file of certificate authorities.", VerifyCAKey, n.UUID)
}

// authoritiesOf returns agent_verify_ca of driver_info: the name of a file, or empty if it is false
// or missing.
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

// Call is the outcome of a call to an agent. The zero value means that nobody was called.
type Call struct {
	Token string // token of the called agent; heartbeats cannot change the endpoint of a token
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

// ownFaults are failures of a call that lie on the engine's machine. Somebody who opens many
// connections can cause them. An engine that is stopping cancels its calls.
var ownFaults = []error{
	ErrNotCalled, context.Canceled, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL,
}

// ReplyOf returns what the error of a call says about the agent. Nil means that the agent answered.
// A call that was refused, timed out, did not reach its address or met another certificate means
// that the agent is gone.
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
