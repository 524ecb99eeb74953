// Package ironic is Ingot's client of the Bare Metal API v1. The operator and the command line
// reach an engine only through it. The engine may be Ingot's or upstream Ironic.
//
// Requests and types are gophercloud's. File own.go has what gophercloud lacks: negotiating the
// microversion, lists that page by marker, lists and nodes with chosen fields, and the
// auto_discovered flag.
//
// The package keeps these promises:
//   - every request to the engine ends within [Options.Timeout], whatever the
//     caller's context says;
//   - every failed call returns an [*Error] with the engine's own sentence in
//     it, except when the caller's context ended: then that error comes back;
//   - nothing is retried unless the caller sets
//     [Options.Retries]. [Retryable] tells which errors are worth another try.
package ironic

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/httpbasic"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"

	"github.com/ingot-metal/ingot/internal/reload"
)

// DefaultTimeout limits one request if [Options.Timeout] is zero. It leaves time for an engine that
// waits for a busy node before it answers.
const DefaultTimeout = 30 * time.Second

// maxResponse limits what is read of one answer, in bytes. The largest valid answer is a full list
// of 1,000 nodes, some 10 MB.
const maxResponse = 64 << 20

// Options configure the access to an engine. Only Endpoint is required.
type Options struct {
	// Endpoint is the engine's URL, http or https, with or without the
	// trailing /v1 and slash. It must not carry credentials.
	Endpoint string
	// Microversion fixes the API version, for instance "1.84". Empty or "latest" negotiates the
	// highest version that both sides understand, and does so again after some minutes.
	Microversion string
	// Username and Password enable HTTP basic authentication. Both or none.
	Username string
	Password string
	// CAFile is a PEM file of the authorities that may sign the engine's certificate. Empty means
	// the system's authorities. The file is read again when it changes.
	CAFile string
	// Insecure turns verification of the engine's certificate off.
	Insecure bool
	// UserAgent is put before gophercloud's own, for instance "ingot-cli/0.1".
	UserAgent string
	// Logger receives messages about a changed CAFile. Nil means that they are lost.
	Logger *slog.Logger
	// Timeout limits each request to the engine. Negotiation and each page of a list are separate
	// requests. Zero means [DefaultTimeout].
	Timeout time.Duration
	// Retries is how often a request is repeated if the engine refused it only for now, or if it
	// never reached the engine; 0 means never. RetryInterval is the time between two attempts,
	// unless the engine names one; zero means [DefaultRetryInterval].
	Retries       int
	RetryInterval time.Duration
}

// Client talks to one engine. It is safe for concurrent use.
type Client struct {
	endpoint string
	timeout  time.Duration
	retries  int
	interval time.Duration

	// base sends no microversion. service sends the negotiated one.
	base         *gophercloud.ServiceClient
	wanted       string
	now          func() time.Time
	mu           sync.Mutex
	service      *gophercloud.ServiceClient
	negotiatedAt time.Time

	// flagUnknown remembers that this engine has no auto_discovered field, until another version is
	// negotiated.
	flagUnknown atomic.Bool
}

// New returns a client for the engine at opts.Endpoint. It sends nothing, so the engine may start
// later. It fails if opts are invalid: a malformed URL or version, a user without a password, an
// unreadable CA file.
func New(opts Options) (*Client, error) {
	endpoint, err := normalizeEndpoint(opts.Endpoint)
	if err != nil {
		return nil, err
	}
	wanted := opts.Microversion
	if wanted == "latest" {
		wanted = ""
	}
	if wanted != "" {
		if _, err := parseVersion(wanted); err != nil {
			return nil, err
		}
	}
	transport, err := newTransport(opts, time.Now)
	if err != nil {
		return nil, err
	}
	service, err := newService(endpoint, opts)
	if err != nil {
		return nil, err
	}
	service.HTTPClient = http.Client{Transport: transport}
	if opts.UserAgent != "" {
		service.UserAgent.Prepend(opts.UserAgent)
	}
	c := &Client{
		endpoint: strings.TrimSuffix(endpoint, "/v1/"),
		timeout:  opts.Timeout,
		retries:  opts.Retries,
		interval: cmp.Or(opts.RetryInterval, DefaultRetryInterval),
		base:     service,
		wanted:   wanted,
		now:      time.Now,
	}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	return c, nil
}

// Endpoint returns the engine's URL without /v1, for messages.
func (c *Client) Endpoint() string { return c.endpoint }

// normalizeEndpoint turns the configured endpoint into the URL of the API's
// root, ending in "/v1/".
func normalizeEndpoint(endpoint string) (string, error) {
	if endpoint == "" {
		return "", errors.New("the engine's endpoint is empty; set it to a URL such as http://127.0.0.1:6385")
	}
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", fmt.Errorf("endpoint %q is not a URL such as http://127.0.0.1:6385", endpoint)
	}
	if u.User != nil {
		return "", fmt.Errorf("endpoint %q carries credentials; give the user name and password separately", u.Redacted())
	}
	path := strings.TrimRight(u.Path, "/")
	path = strings.TrimSuffix(path, "/v1")
	clean := url.URL{Scheme: u.Scheme, Host: u.Host, Path: path + "/v1/"}
	return clean.String(), nil
}

func newService(endpoint string, opts Options) (*gophercloud.ServiceClient, error) {
	if opts.Username == "" && opts.Password == "" {
		return noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: endpoint})
	}
	if opts.Username == "" || opts.Password == "" {
		return nil, errors.New("user name and password of the engine must be given together")
	}
	return httpbasic.NewBareMetalHTTPBasic(httpbasic.EndpointOpts{
		IronicEndpoint:     endpoint,
		IronicUser:         opts.Username,
		IronicUserPassword: opts.Password,
	})
}

// newTransport returns a transport to the engine. After the CA file has changed it opens new
// connections, so that no connection stays in use that only the former authorities signed. It
// checks the file at most once a second.
func newTransport(opts Options, now func() time.Time) (http.RoundTripper, error) {
	var files []string
	if opts.CAFile != "" {
		files = []string{opts.CAFile}
	}
	logger := opts.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	current, err := reload.New("CA file of the engine", files, func() (*http.Transport, error) { return newConnections(opts) }, logger, now)
	if err != nil {
		return nil, err
	}
	return boundedTransport{current}, nil
}

// newConnections returns a transport that verifies certificates against the present content of the
// CA file.
func newConnections(opts Options) (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// One host serves all requests, and callers run in parallel.
	transport.MaxIdleConnsPerHost = 16
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: opts.Insecure} //nolint:gosec // only if the caller asks for it
	if opts.CAFile != "" {
		pem, err := os.ReadFile(opts.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no PEM certificate", opts.CAFile)
		}
	}
	transport.TLSClientConfig = config
	return transport, nil
}

// boundedTransport cuts every answer at maxResponse, so that a wrong or
// hostile endpoint cannot exhaust the caller's memory.
type boundedTransport struct {
	current *reload.Value[*http.Transport]
}

func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.current.Get().RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxResponse)
	return resp, nil
}
