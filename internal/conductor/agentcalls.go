package conductor

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/node"
)

// Agents calls the agents of ramdisks.
type Agents interface {
	// Answers returns nil when the agent of the endpoint answers before ctx ends, and
	// otherwise an error that agent.ReplyOf understands. It is safe for concurrent use.
	Answers(ctx context.Context, e agent.Endpoint) error
}

// Limits of calls to agents. Anybody on the network of the ramdisks can cause such calls.
const (
	// maxAgentCalls is how many calls run at once, at most one of them to each node. The networks
	// that lookups come from share them. A lookup that gets no call is told to retry.
	maxAgentCalls = 8
	// agentCallTime limits a call. It leaves the time to send a lost packet again twice.
	agentCallTime = 5 * time.Second
	// answerCounts is how long an agent that has answered is not called again.
	answerCounts = time.Minute
	// silenceCounts is how long the lack of an answer counts. The client of a lookup may have
	// gone before the call ended; its next lookup then gets the result.
	silenceCounts = 10 * time.Second
)

// agentCalls calls agents whose token may be replaced, and remembers their replies for a while.
type agentCalls struct {
	agents Agents
	now    func() time.Time
	slots  *fairqueue.Queue[fairqueue.Network] // by the network that a lookup comes from

	mu      sync.Mutex
	running map[string]bool      // by the UUID of the node
	known   map[string]knownCall // by token; end drops those that no longer count
}

// knownCall is the result of a call, kept for further lookups for the same agent.
type knownCall struct {
	reply agent.Reply
	until time.Time
}

func newAgentCalls(agents Agents, now func() time.Time) *agentCalls {
	return &agentCalls{
		agents: agents, now: now, slots: fairqueue.New[fairqueue.Network](maxAgentCalls, 0),
		running: map[string]bool{}, known: map[string]knownCall{},
	}
}

// call calls the agent that has the node's token, for a lookup from source. It takes
// agentCallTime at most. It goes on when the client of the lookup has gone, because the next
// lookup gets the result. It must not be made in a transaction.
func (a *agentCalls) call(ctx context.Context, n *node.Node, source netip.Addr) agent.Call {
	token := n.DriverInternalInfo.Text(agent.TokenKey)
	leave, ok := a.slots.TryEnter(fairqueue.NetworkOf(source))
	if !ok {
		leave = func() {}
	}
	defer leave()
	if reply, mayCall := a.begin(n.UUID, token, ok); !mayCall {
		return agent.Call{Token: token, Reply: reply}
	}
	if !fairqueue.Release(ctx) {
		a.end(n.UUID, token, agent.NotCalled)
		return agent.Call{Token: token, Reply: agent.NotCalled}
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), agentCallTime)
	defer cancel()
	reply := agent.ReplyOf(a.agents.Answers(bounded, agent.EndpointOf(n)))
	a.end(n.UUID, token, reply)
	return agent.Call{Token: token, Reply: reply}
}

// begin reserves the call to a node. mayCall is false when an earlier reply still counts, which it
// returns. It is also false, with agent.NotCalled, when a call to the node is under way or there
// is no room for one.
func (a *agentCalls) begin(uuid, token string, room bool) (reply agent.Reply, mayCall bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k, ok := a.known[token]; ok && !a.now().After(k.until) {
		return k.reply, false
	}
	if a.running[uuid] || !room {
		return agent.NotCalled, false
	}
	a.running[uuid] = true
	return agent.NotCalled, true
}

// replyCounts is how long the result of a call counts.
var replyCounts = map[agent.Reply]time.Duration{agent.Answered: answerCounts, agent.NoAnswer: silenceCounts}

func (a *agentCalls) end(uuid, token string, reply agent.Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.running, uuid)
	now := a.now()
	for old, k := range a.known {
		if now.After(k.until) {
			delete(a.known, old)
		}
	}
	if counts, ok := replyCounts[reply]; ok {
		a.known[token] = knownCall{reply: reply, until: now.Add(counts)}
	}
}
