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

// Bounds of calls to agents. Anybody on the network of the ramdisks can cause them.
const (
	maxAgentCalls = 8                // at once, one to a node, shared by those who ask; beyond that lookups are told to retry
	agentCallTime = 5 * time.Second  // a lost packet is sent again twice
	answerCounts  = time.Minute      // how long an answer spares the agent further calls
	silenceCounts = 10 * time.Second // how long silence counts for the next lookup, when who asked has gone
)

// agentCalls calls agents whose token may be replaced, and remembers who answered.
type agentCalls struct {
	agents Agents
	now    func() time.Time
	slots  *fairqueue.Queue[fairqueue.Network] // by who asks

	mu      sync.Mutex
	running map[string]bool      // by the UUID of the node
	known   map[string]knownCall // by token; those that no longer count are dropped
}

// knownCall is the result of a call, for those who ask for the same agent soon.
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

// call calls the agent that has the node's token, for somebody at source. It takes
// agentCallTime at most, also when whoever asked has gone: the next one gets the result. It
// must not be made in a transaction.
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

// begin takes the turn of a node, unless there is no need or no room for a call.
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
