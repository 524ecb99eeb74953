package agentclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/node"
)

// maxCommand limits the answer to a command, in bytes. The largest answers are the logs of a
// ramdisk.
const maxCommand = 4 << 20

// Limits of answers. The list of commands has the results of all commands: logs, and the parameters
// of deployment steps, such as a config drive of 64 MiB. The engine reads nothing of those
// parameters.
var (
	commandBound = bound{sent: maxCommand, kept: maxCommand, text: maxCommand}
	listBound    = bound{sent: 256 << 20, kept: 8 << 20, text: 16 << 10}
)

// commandsPath is where agents list and accept commands. Without the final slash the answer is a
// redirect.
const commandsPath = "/v1/commands/"

// Commands lists the commands that the agent of a node has had since its start, the oldest first.
// It cuts long strings in their results. Its error is a *node.DriverError, always Refused: whoever
// cannot read the list has changed nothing.
func (c Client) Commands(ctx context.Context, n *node.Node) ([]agent.Command, error) {
	var list struct {
		Commands commandList `json:"commands"`
	}
	err := c.call(ctx, n, http.MethodGet, "list the commands", nil, nil, listBound, &list)
	return list.Commands, err
}

// maxListed limits the number of commands of one agent. A short command takes far more memory when
// it is decoded than in the answer. A phase of a machine's life has some ten.
const maxListed = 10_000

// commandList decodes its commands one by one, up to maxListed.
type commandList []agent.Command

// UnmarshalJSON reads a list of commands. It fails if there are too many, or if encoding/json does.
func (l *commandList) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if first, err := decoder.Token(); err != nil || first != json.Delim('[') {
		return errors.Join(err, errors.New("the commands are no list"))
	}
	for decoder.More() {
		if len(*l) == maxListed {
			return fmt.Errorf("it lists more than %d commands", maxListed)
		}
		var command agent.Command
		if err := decoder.Decode(&command); err != nil {
			return err
		}
		*l = append(*l, command)
	}
	return nil
}

// Execute sends the command "extension.name" to the agent of a node. It returns the agent's
// description of the command: after its end if wait is true, else at once. The error is a
// *node.DriverError. It is Refused if the agent has not begun the command.
func (c Client) Execute(ctx context.Context, n *node.Node, name string, params map[string]any, wait bool) (agent.Command, error) {
	if params == nil {
		params = map[string]any{}
	}
	body, err := json.Marshal(map[string]any{"name": name, "params": params})
	if err != nil {
		return agent.Command{}, fmt.Errorf("encode the command %s for node %s: %w", name, n.UUID, err)
	}
	var command agent.Command
	query := url.Values{"wait": {fmt.Sprint(wait)}}
	err = c.call(ctx, n, http.MethodPost, "run "+name, query, body, commandBound, &command)
	return command, err
}

// call makes one request to the agent of a node and decodes its answer.
func (c Client) call(ctx context.Context, n *node.Node, method, does string, query url.Values, body []byte, most bound, into any) error {
	failed := func(retryable, refused bool, format string, args ...any) error {
		return &node.DriverError{
			Op: does + " on the ramdisk of node " + n.UUID, Retryable: retryable, Refused: refused || method == http.MethodGet,
			Reason: node.CutText(fmt.Sprintf(format, args...)),
		}
	}
	endpoint := agent.EndpointOf(n)
	if endpoint.URL == "" {
		return failed(true, true, "its agent has sent no heartbeat yet.")
	}
	target, _, err := c.rules.Permit(n.UUID, endpoint.URL)
	if err != nil {
		return failed(false, true, "%v", err)
	}
	if query == nil {
		query = url.Values{}
	}
	if token := n.DriverInternalInfo.Text(agent.TokenKey); token != "" {
		query.Set("agent_token", token)
	}
	request, err := newRequest(ctx, method, target, commandsPath, query, body)
	if err != nil {
		return failed(false, true, "%v", err)
	}
	trusted, err := trustOf(target, endpoint)
	if err != nil {
		return failed(true, true, "%v.", err)
	}
	response, err := c.send(ctx, request, trusted, most)
	switch {
	case errors.Is(err, errCertificate):
		return failed(false, true, "what answers at %s is another agent: %v.", endpoint.URL, err)
	case errors.Is(err, errUnsent):
		return failed(true, true, "no answer from %s: %v.", endpoint.URL, err)
	case err != nil:
		return failed(true, false, "%s did not answer: %v.", endpoint.URL, err)
	case response.code/100 == 4:
		return failed(response.code == http.StatusConflict, true, "the agent refused with status %d: %s.", response.code, faultOf(response.body))
	case response.code != http.StatusOK:
		return failed(true, false, "the agent answered with status %d: %s.", response.code, faultOf(response.body))
	case errors.Is(response.broken, errTooLarge):
		return failed(false, false, "the answer cannot be read: %v.", response.broken)
	case response.broken != nil:
		return failed(true, false, "the answer broke off: %v.", response.broken)
	}
	if err := json.Unmarshal(response.body, into); err != nil {
		return failed(false, false, "the answer cannot be read: %v.", err)
	}
	return nil
}

// faultOf returns the reason in an error answer of an agent.
func faultOf(body []byte) string {
	var fault struct {
		Text string `json:"faultstring"`
	}
	if json.Unmarshal(body, &fault) != nil || fault.Text == "" {
		return "it gives no reason"
	}
	return fault.Text
}
