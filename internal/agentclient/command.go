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

// maxCommand bounds the answer to a command, in bytes. The largest are the logs of a ramdisk.
const maxCommand = 4 << 20

// Bounds of answers. The list of commands has the results of all of them: logs, and what the steps
// of deployments were given, such as a config drive of 64 MiB, of which nothing is read there.
var (
	commandBound = bound{sent: maxCommand, kept: maxCommand, text: maxCommand}
	listBound    = bound{sent: 256 << 20, kept: 8 << 20, text: 16 << 10}
)

// commandsPath is where agents list and take commands. Without the slash at its end it
// is a redirect.
const commandsPath = "/v1/commands/"

// Commands lists the commands that the agent of a node has had since its start, the
// oldest first. Of long strings in their results it returns the beginning. Its error is a
// *node.DriverError.
func (c Client) Commands(ctx context.Context, n *node.Node) ([]agent.Command, error) {
	var list struct {
		Commands commandList `json:"commands"`
	}
	err := c.call(ctx, n, http.MethodGet, "list the commands", nil, nil, listBound, &list)
	return list.Commands, err
}

// maxListed bounds the commands of one agent: decoded, a short one takes far more room than in
// the answer. A phase of a machine's life has some ten.
const maxListed = 10_000

// commandList is decoded one by one, up to maxListed.
type commandList []agent.Command

// UnmarshalJSON reads a list of commands; its error says that there are too many, or what
// encoding/json says.
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

// Execute sends a command, "extension.name", to the agent of a node, and returns what the
// agent says of it: at its end when wait is true, else at once. The error is a
// *node.DriverError; it is Refused when the agent has not begun the command.
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
			Op: does + " on the ramdisk of node " + n.UUID, Retryable: retryable, Refused: refused,
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
