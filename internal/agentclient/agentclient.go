// Package agentclient calls the agents of ramdisks at their callback URLs.
//
// A machine on the provisioning network chose the address of a call. So a call goes only where the
// rules for heartbeats permit, follows no redirect, uses no proxy, and reads a limited amount of
// the answer. Commands carry the token that the agent itself sends with its heartbeats, and no
// other secret.
package agentclient

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
)

// statusBound limits the answer to a request for the status.
var statusBound = bound{sent: 16 << 10, kept: 16 << 10, text: 16 << 10}

// Client calls agents. It keeps no connections, and is safe for concurrent use.
type Client struct {
	rules agent.Rules
	dial  Dial
}

// Dial opens a connection to an address, as [net.Dialer.DialContext] does. If it fails, nothing was
// sent.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// New returns a client that calls the URLs that the rules permit.
func New(rules agent.Rules) Client { return Over(rules, new(net.Dialer).DialContext) }

// Over is New with a function that opens connections in place of the system's.
func Over(rules agent.Rules, dial Dial) Client { return Client{rules, dial} }

// Answers returns nil if the agent of the endpoint answers. The context limits the call. An agent
// that sent a certificate proves its identity with its key, whatever it answers. Without a
// certificate, the answer must be the status of an agent; then another agent at the same address is
// taken for this one.
//
// The protocol is that of ironic-python-agent: GET /v1/status needs no token and is
// answered with {"started_at": …, "version": …}.
func (c Client) Answers(ctx context.Context, e agent.Endpoint) error {
	target, _, err := c.rules.Permit(e.Node, e.URL)
	if err != nil {
		return err
	}
	trusted, err := trustOf(target, e)
	if err != nil {
		return fmt.Errorf("call agent of node %s: %w: %w", e.Node, agent.ErrNotCalled, err)
	}
	request, err := newRequest(ctx, http.MethodGet, target, "/v1/status", nil, nil)
	if err != nil {
		return err
	}
	response, err := c.send(ctx, request, trusted, statusBound)
	switch {
	case err != nil:
		return fmt.Errorf("call agent of node %s: %w", e.Node, err)
	case e.VerifyCA != "" && target.Scheme == "https" || isStatus(response):
		return nil
	case response.broken != nil:
		return fmt.Errorf("call agent of node %s: the answer broke off: %w", e.Node, response.broken)
	default:
		return fmt.Errorf("call agent of node %s: what answered is no agent (status %d)", e.Node, response.code)
	}
}

// answer is the answer to one request.
type answer struct {
	code   int
	body   []byte // the part that arrived, within the limit
	broken error  // why the rest did not arrive
}

// newRequest returns a request to an agent; body may be nil.
func newRequest(ctx context.Context, method string, target *url.URL, path string, query url.Values, body []byte) (*http.Request, error) {
	whole := url.URL{Scheme: target.Scheme, Host: target.Host, Path: path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, whole.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Close = true
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// errUnsent is in the chain of errors of requests that did not reach the agent at all.
var errUnsent = errors.New("nothing was sent")

// send makes one request on its own connection, which ends with the call. An http.Transport would
// continue a handshake after the context has ended.
func (c Client) send(ctx context.Context, request *http.Request, trusted *trust, most bound) (answer, error) {
	target := request.URL
	address := net.JoinHostPort(target.Hostname(), cmp.Or(target.Port(), defaultPorts[target.Scheme]))
	dialed, err := c.dial(ctx, "tcp", address)
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", errUnsent, err)
	}
	defer func() { _ = dialed.Close() }()
	defer context.AfterFunc(ctx, func() { _ = dialed.Close() })()
	conn := dialed
	if target.Scheme == "https" {
		secured := tls.Client(dialed, trusted.config(target.Hostname()))
		if err := secured.HandshakeContext(ctx); err != nil {
			return answer{}, fmt.Errorf("%w: %w", errUnsent, err)
		}
		conn = secured
	}
	if err := driver.CheckDeadline(ctx); err != nil {
		return answer{}, fmt.Errorf("%w: %w", errUnsent, err)
	}
	if err := request.Write(conn); err != nil {
		return answer{}, because(ctx, err)
	}
	sent := &io.LimitedReader{R: conn, N: most.kept} // of the header
	response, err := http.ReadResponse(bufio.NewReader(sent), request)
	if err != nil {
		return answer{}, because(ctx, err)
	}
	defer response.Body.Close()
	sent.N += most.sent - most.kept
	kept := &io.LimitedReader{R: &shortener{from: response.Body, most: most.text}, N: most.kept}
	body, broken := io.ReadAll(kept)
	if sent.N <= 0 || kept.N <= 0 {
		broken = errTooLarge
	}
	return answer{response.StatusCode, body, because(ctx, broken)}, nil
}

// because puts the error of the context, if that has ended, before an error of the connection. The
// connection was closed because of the context, and its error does not say so.
func because(ctx context.Context, err error) error {
	if ended := ctx.Err(); err != nil && ended != nil {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// isStatus reports whether an answer is the status of an agent.
func isStatus(a answer) bool {
	var status struct {
		Version string `json:"version"`
	}
	return a.code == http.StatusOK && json.Unmarshal(a.body, &status) == nil && status.Version != ""
}
