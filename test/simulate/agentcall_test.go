package simulate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/agentclient"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// agentCalls calls agents for one replica.
type agentCalls struct {
	agentclient.Client
	r *replica
}

func (r *replica) agentCalls() agentCalls {
	return agentCalls{agentclient.Over(agent.Rules{}, r.dialAgent), r}
}

// originKey is the key under which the context of a call has the origin of the call.
type originKey struct{}

func (a agentCalls) withOrigin(ctx context.Context, n *node.Node) context.Context {
	return context.WithValue(ctx, originKey{}, driver.Origin{Conductor: a.r.name, Epoch: n.Lease.Epoch, Request: runner.InfoOf(ctx).Request})
}

func (a agentCalls) Commands(ctx context.Context, n *node.Node) ([]agent.Command, error) {
	return a.Client.Commands(a.withOrigin(ctx, n), n)
}

func (a agentCalls) Execute(ctx context.Context, n *node.Node, name string, params map[string]any, wait bool) (agent.Command, error) {
	return a.Client.Execute(a.withOrigin(ctx, n), n, name, params, wait)
}

// dialAgent connects to the agent at an address.
func (r *replica) dialAgent(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	c := r.w.computerAt(host)
	r.w.sched.wait(ctx, &point{replica: r, kind: atYield, name: c.name + " is dialed for " + taskName(ctx)})
	switch {
	case r.isDead():
		return nil, errDead
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case c.agentHandler() == nil:
		return nil, errConnRefused
	}
	origin, _ := ctx.Value(originKey{}).(driver.Origin)
	return &agentConn{ctx: ctx, r: r, to: c, origin: origin}, nil
}

// agentConn is a connection to an agent for one request. The agent answers in the goroutine that
// reads.
type agentConn struct {
	ctx    context.Context //nolint:containedctx // of the only request
	r      *replica
	to     *computer
	origin driver.Origin
	sent   bytes.Buffer
	answer io.Reader // nil before the request was answered
}

func (c *agentConn) Write(text []byte) (int, error) { return c.sent.Write(text) }

func (c *agentConn) Read(into []byte) (int, error) {
	if c.answer == nil {
		answer, err := c.exchange()
		if err != nil {
			c.r.dropAcknowledged(c.origin.Request)
			return 0, err
		}
		c.answer = answer
	}
	return c.answer.Read(into)
}

func (*agentConn) Close() error                     { return nil }
func (*agentConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*agentConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*agentConn) SetDeadline(time.Time) error      { return nil }
func (*agentConn) SetReadDeadline(time.Time) error  { return nil }
func (*agentConn) SetWriteDeadline(time.Time) error { return nil }

// agentRequest is a request to an agent.
type agentRequest struct {
	*http.Request
	name    string // a command with its step, or the path that is read
	changes bool
}

// exchange has the agent answer the request.
func (c *agentConn) exchange() (io.Reader, error) {
	q, err := readAgentRequest(c.sent.Bytes())
	if err != nil {
		return nil, err
	}
	q.Request = q.WithContext(c.ctx)
	p := &point{replica: c.r, kind: atRead, name: c.to.name + " agent " + q.name + " for " + taskName(c.ctx), call: "agent " + q.Method}
	if q.changes {
		p.kind, p.call, p.rare = atEffect, "agent "+q.name, slices.Contains(atMostOnce, kindOfCommand(q.name))
	}
	return c.deliver(q, c.r.w.sched.wait(c.ctx, p))
}

func readAgentRequest(text []byte) (*agentRequest, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
	if err != nil {
		return nil, err
	}
	q := &agentRequest{Request: r, name: r.URL.Path}
	if r.Method != http.MethodPost {
		return q, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var command struct {
		Name   string
		Params struct{ Step struct{ Step string } }
	}
	if err := json.Unmarshal(body, &command); err != nil {
		return nil, err
	}
	q.name, q.changes = strings.TrimSpace(command.Name+" "+command.Params.Step.Step), !slices.Contains(readOnlyCommands, command.Name)
	return q, nil
}

// deliver makes a request as the verdict says.
func (c *agentConn) deliver(q *agentRequest, v verdict) (io.Reader, error) {
	handler := c.to.agentHandler()
	switch {
	case c.r.isDead() || v == crashBefore:
		c.r.die()
		return nil, errDead
	case c.ctx.Err() != nil: // the process was paused beyond its deadline
		if q.changes {
			c.to.noteUnknown()
		}
		return nil, c.ctx.Err()
	case v == requestLost, handler == nil: // the agent may have ended meanwhile
		return nil, errConnReset
	case v == refused:
		return rawResponse(http.StatusConflict, `{"faultcode":"Client","faultstring":"Agent is busy: executing command of somebody else"}`), nil
	}
	if q.changes {
		sent := c.to.beginCall(c.ctx, c.r)
		defer c.to.endCall(sent)
	}
	switch v {
	case hangs:
		<-c.ctx.Done()
		return nil, c.ctx.Err()
	case lies:
		return rawResponse(http.StatusOK, `{"id":"a-command-of-nobody","command_name":"lie","command_status":"RUNNING"}`), nil
	}
	c.r.checkWork(c.ctx, c.to.machine)
	written := httptest.NewRecorder()
	c.to.setAnswerLost((v == crashAfter || v == answerLost) && slices.Contains(atMostOnce, kindOfCommand(q.name)))
	handler.ServeHTTP(written, q.Request)
	c.to.setAnswerLost(false)
	begun := c.noteAccepted(q, written)
	switch v {
	case crashAfter:
		c.r.die()
		return nil, errDead
	case answerLost:
		<-c.ctx.Done()
		return nil, c.ctx.Err()
	}
	if begun {
		c.r.noteAcknowledged(effect{kind: kindOfCommand(q.name), detail: q.name, origin: c.origin})
	}
	c.to.noteReported(written.Body.Bytes())
	return encode(written.Result())
}

// noteAccepted notes a command that the agent has accepted, and reports whether it changes the
// machine.
func (c *agentConn) noteAccepted(q *agentRequest, written *httptest.ResponseRecorder) bool {
	var command struct{ ID string }
	if q.Method != http.MethodPost || written.Code != http.StatusOK || json.Unmarshal(written.Body.Bytes(), &command) != nil {
		return false
	}
	if q.changes {
		c.to.noteCommandID(command.ID, c.origin.Request)
		c.checkStored(q)
		c.to.beginEffect(effect{kind: kindOfCommand(q.name), detail: q.name, origin: c.origin}, c.r)
	}
	c.to.stateMu.Lock()
	defer c.to.stateMu.Unlock()
	c.to.listedCommands = append(c.to.listedCommands, command.ID)
	return q.changes
}

// checkStored checks that the row of the work names the last command that the agent had before the
// one that is sent, so that the engine can tell the two apart. A restart that a client asked for
// has no such row.
func (c *agentConn) checkStored(q *agentRequest) {
	c.to.stateMu.Lock()
	known := slices.Clone(c.to.listedCommands)
	c.to.stateMu.Unlock()
	if kindOfCommand(q.name) == reboot {
		return
	}
	_ = c.r.w.db.Read(context.Background(), func(tx *store.Tx) error {
		n, err := tx.Node(c.to.uuid)
		if err != nil {
			return err
		}
		works, err := tx.WorkOf(n.ID)
		if err == nil && !slices.ContainsFunc(works, func(w *store.Work) bool { return namesCommandBefore(w.Checkpoint, known) }) {
			c.r.w.violated("%s: %s is sent, and the row of its work does not name the command before it", c.to.name, q.name)
		}
		return err
	})
}

// namesCommandBefore reports whether a checkpoint says that a command is being sent, and names one
// of the commands that the agent had before.
func namesCommandBefore(checkpoint string, known []string) bool {
	var stored struct{ Phase, Handle string }
	return json.Unmarshal([]byte(checkpoint), &stored) == nil && slices.Contains(known, stored.Handle) &&
		(stored.Phase == "to send" || stored.Phase == "in doubt")
}

// rawResponse is an answer as it comes over a connection.
func rawResponse(status int, body string) io.Reader {
	return strings.NewReader(fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), len(body), body))
}

func encode(answer *http.Response) (io.Reader, error) {
	var text bytes.Buffer
	err := answer.Write(&text)
	return &text, err
}
