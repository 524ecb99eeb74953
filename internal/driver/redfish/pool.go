package redfish

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/internal/driver"
)

// Options are the bounds of a driver's connections, and where firmware comes from. The zero
// value means the defaults.
type Options struct {
	FileOptions
	// SessionIdle is how long a session is kept without a call; 0 means 5 minutes.
	SessionIdle time.Duration
	// RefusalPause is the time between the first two tries of credentials that a BMC
	// refuses, which some do while they restart; 0 means 30 seconds.
	RefusalPause time.Duration
	// Clock tells the time; nil means time.Now.
	Clock func() time.Time
	// Transport carries the requests to all BMCs, whatever redfish_verify_ca says; nil
	// means HTTP over TCP with TLS.
	Transport http.RoundTripper
}

const (
	defaultSessionIdle  = 5 * time.Minute
	defaultRefusalPause = 30 * time.Second
	// forgetAfter is how long the pool remembers whether a BMC accepts credentials that no node
	// uses.
	forgetAfter = 24 * time.Hour

	connectionIdle    = 15 * time.Second
	connectionsPerBMC = 2
	// maxIdleConnections bounds the memory of connections to many BMCs, about 60 kB each. A
	// call makes its requests without a pause, so few of the closed connections are missed later.
	maxIdleConnections = 256
	logoutsAtOnce      = 64
	maxAuthorities     = 1 << 20 // size of a file of certificate authorities, in bytes
	// maxRegistry, maxDocument and maxAnswers bound the answers of a BMC, in bytes: the registry of
	// BIOS attributes, any other document, and all answers to one call. In memory, empty members of
	// a list may take a hundred times as much as in an answer.
	maxRegistry, maxDocument, maxAnswers = 16 << 20, 1 << 20, 64 << 20
	logoutTimeout                        = 10 * time.Second
)

// pool has the BMCs that the engine calls.
type pool struct {
	options Options

	mu         sync.Mutex
	closed     bool
	bmcs       map[access]*bmc
	transports map[verification]transport
	logouts    sync.WaitGroup // of idle sessions
}

// transport is shared by all BMCs whose certificates are checked in the same way.
type transport struct {
	http.RoundTripper
	authorities os.FileInfo // of the file, when there is one
}

func newPool(o Options) *pool {
	if o.SessionIdle == 0 {
		o.SessionIdle = defaultSessionIdle
	}
	if o.RefusalPause == 0 {
		o.RefusalPause = defaultRefusalPause
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &pool{options: o, bmcs: map[access]*bmc{}, transports: map[verification]transport{}}
}

// errClosed is the error of calls after close.
var errClosed = errors.New("the engine is being stopped")

// take returns the BMC for a call, which must end with its release.
func (p *pool) take(a access) (*bmc, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	base, err := p.transport(a.verify)
	if err != nil {
		return nil, err
	}
	b, ok := p.bmcs[a]
	if !ok {
		b = newBMC(a, p.options)
		p.bmcs[a] = b
	}
	b.use(base)
	b.users++
	if b.idle != nil {
		b.idle.Stop()
	}
	return b, nil
}

// release ends a call.
func (p *pool) release(b *bmc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.users--
	if b.users > 0 || p.closed {
		return
	}
	b.idle = time.AfterFunc(p.options.SessionIdle, func() { p.rest(b) })
}

// rest gives back the session of a BMC that nobody uses. It keeps little more than whether the BMC
// accepts the credentials.
func (p *pool) rest(b *bmc) {
	p.mu.Lock()
	if p.closed || b.users > 0 {
		p.mu.Unlock()
		return
	}
	b.forget()
	idle := b.swap(session{})
	b.idle = time.AfterFunc(forgetAfter, func() { p.drop(b) })
	p.logouts.Add(1)
	p.mu.Unlock()
	defer p.logouts.Done()
	b.end(context.Background(), idle)
}

// drop forgets a BMC that nobody uses.
func (p *pool) drop(b *bmc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.users == 0 && p.bmcs[b.access] == b {
		delete(p.bmcs, b.access)
	}
}

// close gives all sessions back.
func (p *pool) close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	all := p.bmcs
	p.bmcs = map[access]*bmc{}
	p.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(logoutsAtOnce)
	for _, b := range all {
		if b.idle != nil {
			b.idle.Stop()
		}
		group.Go(func() error {
			b.end(ctx, b.swap(session{}))
			return nil
		})
	}
	_ = group.Wait()
	p.logouts.Wait()
	return ctx.Err()
}

// transport returns the transport for a kind of verification. A file of certificate
// authorities is read again when it has changed. The caller holds the lock.
func (p *pool) transport(v verification) (http.RoundTripper, error) {
	var file os.FileInfo
	if p.options.Transport != nil {
		return p.options.Transport, nil
	}
	if v.file != "" {
		var err error
		if file, err = os.Stat(v.file); err != nil {
			return nil, fmt.Errorf("read %s: %w", verifyKey, err)
		}
		if !file.Mode().IsRegular() {
			return nil, fmt.Errorf("read %s: %s is no file", verifyKey, v.file)
		}
	}
	known, ok := p.transports[v]
	if ok && (file == nil || known.authorities.ModTime().Equal(file.ModTime()) && known.authorities.Size() == file.Size()) {
		return known.RoundTripper, nil
	}
	config := &tls.Config{InsecureSkipVerify: v.off, CipherSuites: CipherSuites()} //nolint:gosec // only where the node asks for it
	if file != nil {
		var err error
		if config.RootCAs, err = readAuthorities(v.file); err != nil {
			return nil, err
		}
	}
	made := transport{authorities: file, RoundTripper: driver.NewTransport(driver.TransportOptions{
		TLS: config, IdlePerMachine: connectionsPerBMC, Idle: maxIdleConnections, IdleTimeout: connectionIdle,
	})}
	p.transports[v] = made
	return made.RoundTripper, nil
}

// CipherSuites returns the cipher suites for tls.Config, which heeds only those of TLS 1.2. Many BMCs
// of about 2015 and earlier have only the last four, which exchange keys by RSA. Those are taken
// where there is no other: whoever records the traffic, and gets the private key of the BMC later,
// can read it.
func CipherSuites() (suites []uint16) {
	for _, suite := range tls.CipherSuites() {
		suites = append(suites, suite.ID)
	}
	return append(suites,
		tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_256_CBC_SHA)
}

func readAuthorities(path string) (*x509.CertPool, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", verifyKey, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxAuthorities))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", verifyKey, err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read %s: %s holds no PEM certificate", verifyKey, path)
	}
	return authorities, nil
}
