package conductor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/node"
)

// Agents calls the agents of ramdisks.
type Agents interface {
	// Answers returns nil when the agent of the endpoint answers before ctx ends, and
	// otherwise an error that agent.ReplyOf understands. It is safe for concurrent use.
	Answers(ctx context.Context, e agent.Endpoint) error
}

// Bounds of calls to agents. Anybody on the network of the ramdisks can cause them.
const (
	maxAgentCalls = 8               // at once, one to a node; beyond that lookups are told to retry
	agentCallTime = 5 * time.Second // a lost packet is sent again twice
	answerCounts  = time.Minute     // how long an answer spares the agent further calls
)

// agentCalls calls agents whose token may be replaced, and remembers who answered.
type agentCalls struct {
	agents Agents
	now    func() time.Time

	mu       sync.Mutex
	running  map[string]bool      // by the UUID of the node
	answered map[string]time.Time // by token; those that no longer count are dropped
}

func newAgentCalls(agents Agents, now func() time.Time) *agentCalls {
	return &agentCalls{agents: agents, now: now, running: map[string]bool{}, answered: map[string]time.Time{}}
}

// call calls the agent that has the node's token. It takes agentCallTime at most, and
// must not be made in a transaction.
func (a *agentCalls) call(ctx context.Context, n *node.Node) agent.Call {
	token := n.DriverInternalInfo.Text(agent.TokenKey)
	if reply, mayCall := a.begin(n.UUID, token); !mayCall {
		return agent.Call{Token: token, Reply: reply}
	}
	bounded, cancel := context.WithTimeout(ctx, agentCallTime)
	defer cancel()
	err := a.agents.Answers(bounded, agent.EndpointOf(n))
	if err != nil && ctx.Err() != nil { // whoever asked has gone, which ended the call
		err = errors.Join(agent.ErrNotCalled, err)
	}
	reply := agent.ReplyOf(err)
	a.end(n.UUID, token, reply)
	return agent.Call{Token: token, Reply: reply}
}

// begin takes the turn of a node, unless there is no need or no room for a call.
func (a *agentCalls) begin(uuid, token string) (reply agent.Reply, mayCall bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at, ok := a.answered[token]; ok && a.now().Sub(at) <= answerCounts {
		return agent.Answered, false
	}
	if a.running[uuid] || len(a.running) >= maxAgentCalls {
		return agent.NotCalled, false
	}
	a.running[uuid] = true
	return agent.NotCalled, true
}

func (a *agentCalls) end(uuid, token string, reply agent.Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.running, uuid)
	if reply != agent.Answered {
		return
	}
	now := a.now()
	for old, at := range a.answered {
		if now.Sub(at) > answerCounts {
			delete(a.answered, old)
		}
	}
	a.answered[token] = now
}
