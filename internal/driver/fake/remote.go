package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 10

// Remote returns the machines that driver_info.fake_machine names. They are reached
// over HTTP, as docs/fake-hardware.md describes, and share connections.
func Remote() Machines {
	client := &http.Client{
		Transport:     driver.NewTransport(driver.TransportOptions{}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(n *node.Node) (Machine, bool) {
		address := n.DriverInfo.Text(machineKey)
		return remote{client: client, url: strings.TrimRight(address, "/")}, address != ""
	}
}

// remote is a machine behind HTTP. The context of a call bounds it.
type remote struct {
	client *http.Client
	url    string
}

var _ Machine = remote{}

// PowerState reads the power state.
func (r remote) PowerState(ctx context.Context) (node.PowerState, error) {
	const op = "read power state"
	var answer struct {
		PowerState node.PowerState `json:"power_state"`
	}
	if err := r.call(ctx, op, http.MethodGet, "/power", nil, &answer); err != nil {
		return "", err
	}
	if answer.PowerState != node.PowerOn && answer.PowerState != node.PowerOff {
		return "", r.broken(op, fmt.Sprintf("the machine shows %q", answer.PowerState))
	}
	return answer.PowerState, nil
}

// Do posts the effect.
func (r remote) Do(ctx context.Context, e Effect) (Task, error) {
	return r.task(ctx, string(e.Kind), http.MethodPost, "/effects", map[string]any{
		"kind": e.Kind, "detail": e.Detail,
		"conductor": e.Origin.Conductor, "epoch": e.Origin.Epoch, "request": e.Origin.Request,
		"settings": e.Settings,
	})
}

// Settings reads what was changed.
func (r remote) Settings(ctx context.Context) (Settings, error) {
	var answer Settings
	err := r.call(ctx, "read settings", http.MethodGet, "/settings", nil, &answer)
	return answer, err
}

// Outcome reads the task of a request.
func (r remote) Outcome(ctx context.Context, request string) (Task, error) {
	return r.task(ctx, "read task", http.MethodGet, "/tasks?request="+url.QueryEscape(request), nil)
}

func (r remote) task(ctx context.Context, op, method, path string, body any) (Task, error) {
	var answer struct {
		ID    string    `json:"id"`
		State TaskState `json:"state"`
		Error string    `json:"error"`
	}
	if err := r.call(ctx, op, method, path, body, &answer); err != nil {
		return Task{}, err
	}
	if !slices.Contains([]TaskState{None, Running, Done, Failed, Unknown}, answer.State) {
		return Task{}, r.broken(op, fmt.Sprintf("the machine answered with a task in state %q", answer.State))
	}
	return Task{ID: answer.ID, State: answer.State, Error: answer.Error}, nil
}

// call makes one request. Without a connection, or with a 4xx answer, nothing was
// done; after any other failure the request may have had its effect.
func (r remote) call(ctx context.Context, op, method, path string, body, answer any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	request, err := r.request(ctx, method, path, body)
	if err != nil {
		return &node.DriverError{Op: op, Refused: true, Reason: node.CutText(err.Error())}
	}
	response, err := r.client.Do(request)
	if err != nil {
		return &node.DriverError{Op: op, Retryable: true, Refused: neverSent(err), Reason: node.CutText(err.Error())}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch status := response.StatusCode; {
	case status >= 400 && status < 500:
		return &node.DriverError{
			Op: op, Refused: true, Retryable: slices.Contains(tryLater, status), Reason: r.said(response, text),
		}
	case status < 200 || status > 299:
		return &node.DriverError{Op: op, Retryable: true, Reason: r.said(response, text)}
	case err != nil:
		return r.broken(op, "the answer broke off: "+err.Error())
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return r.broken(op, "the answer is no JSON: "+err.Error())
	}
	return nil
}

// tryLater are the statuses of temporary refusals.
var tryLater = []int{
	http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests,
}

func (r remote) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// neverSent reports whether a request failed before anything of it was sent.
func neverSent(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

func (r remote) said(response *http.Response, text []byte) string {
	return node.CutText(fmt.Sprintf("%s answered %s: %s", r.url, response.Status, bytes.TrimSpace(text)))
}

// broken returns the error of a call without a usable answer.
func (r remote) broken(op, reason string) error {
	return &node.DriverError{Op: op, Retryable: true, Reason: node.CutText(reason)}
}
