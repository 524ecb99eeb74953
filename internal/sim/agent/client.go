package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// userAgent is the one that the recorded agent sends.
const userAgent = "python-requests/2.28.1"

const (
	requestTimeout = 30 * time.Second
	answerLimit    = 1 << 20 // largest answer, in bytes
)

// errRequestTime ends a request that takes longer than requestTimeout.
var errRequestTime = errors.New("the time for the request is over")

// errReadTimeout means that the engine got the whole request and did not begin to answer in time. A
// request that ends before it was sent, or during its answer, counts as a broken connection.
var errReadTimeout = errors.New("no answer in time")

// microversion is the minor part of an API version 1.N.
type microversion int

// API versions at which the agent changes what it sends.
const (
	oldestVersion  microversion = 31 // assumed when the engine does not say
	agentVersionAt microversion = 36 // heartbeats carry the agent's version
	tokenAt        microversion = 62 // lookups return tokens
	verifyCAAt     microversion = 68 // heartbeats carry a certificate
)

func (v microversion) String() string { return "1." + strconv.Itoa(int(v)) }

// versionHeader selects the API version of a request.
const versionHeader = "X-OpenStack-Ironic-API-Version"

// client makes requests to the engine. It is used by one goroutine.
type client struct {
	base     string // without a trailing slash
	http     *http.Client
	answered func(Call, int, error)
	version  microversion // of the engine; zero while unknown
}

// request is one request.
type request struct {
	call    Call
	method  string
	path    string // or a whole URL
	query   url.Values
	version microversion // zero sends no version header
	body    []byte
}

// do makes one request and reads the whole answer. An error means that there was no
// answer; a failure status is not an error.
func (c *client) do(ctx context.Context, r request) (status int, answer []byte, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, requestTimeout, errRequestTime)
	defer cancel()
	status, answer, err = c.roundTrip(limited, r)
	if ctx.Err() == nil { // otherwise the power was cut meanwhile
		c.answered(r.call, status, err)
	}
	return status, answer, err
}

func (c *client) roundTrip(ctx context.Context, r request) (int, []byte, error) {
	target := r.path
	if strings.HasPrefix(target, "/") {
		target = c.base + r.path
	}
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return 0, nil, fmt.Errorf("prepare %s %s: %w", r.method, target, err)
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json")
	if r.version != 0 {
		req.Header.Set(versionHeader, r.version.String())
	}
	var sent atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(written httptrace.WroteRequestInfo) { sent.Store(written.Err == nil) },
	}))
	resp, err := c.http.Do(req)
	if err != nil {
		if sent.Load() && errors.Is(context.Cause(ctx), errRequestTime) {
			err = fmt.Errorf("%w: %w", errReadTimeout, err)
		}
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return 0, nil, fmt.Errorf("read answer of %s %s: %w", r.method, target, err)
	}
	return resp.StatusCode, answer, nil
}

// serverVersion returns the newest API version that the engine supports. It asks the
// engine once. While there is no usable answer, it returns the oldest supported
// version, and asks again at the next call.
func (c *client) serverVersion(ctx context.Context) microversion {
	if c.version != 0 {
		return c.version
	}
	status, answer, err := c.do(ctx, request{call: CallVersion, method: http.MethodGet, path: "/"})
	if err != nil || status != http.StatusOK {
		return oldestVersion
	}
	var root struct {
		DefaultVersion struct {
			Version string `json:"version"`
		} `json:"default_version"`
	}
	if json.Unmarshal(answer, &root) != nil {
		return oldestVersion
	}
	minor, isV1 := strings.CutPrefix(root.DefaultVersion.Version, "1.")
	n, err := strconv.Atoi(minor)
	if !isV1 || err != nil || n <= 0 {
		return oldestVersion
	}
	c.version = microversion(n)
	return c.version
}

// faultText returns the message of an error answer, in either form that engines use,
// shortened for a log line.
func faultText(answer []byte) string {
	var body struct {
		ErrorMessage json.RawMessage `json:"error_message"`
	}
	text := strings.TrimSpace(string(answer))
	if json.Unmarshal(answer, &body) == nil && body.ErrorMessage != nil {
		inner := body.ErrorMessage
		var quoted string
		if json.Unmarshal(inner, &quoted) == nil {
			text, inner = quoted, json.RawMessage(quoted)
		}
		var fault struct {
			FaultString string `json:"faultstring"`
			Title       string `json:"title"`
		}
		if json.Unmarshal(inner, &fault) == nil && fault.FaultString+fault.Title != "" {
			text = fault.FaultString
			if text == "" {
				text = fault.Title
			}
		}
	}
	const limit = 200
	if len(text) > limit {
		text = text[:limit] + "…"
	}
	return text
}
