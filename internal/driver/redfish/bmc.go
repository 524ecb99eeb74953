package redfish

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/stmcginnis/gofish"

	"github.com/ingot-metal/ingot/internal/driver/login"
)

// bmc is one BMC with the credentials that nodes have for it. As an
// [http.RoundTripper] it adds these to requests, so that the calls of the library need
// not know how.
type bmc struct {
	access access
	clock  func() time.Time
	tries  *login.Tries

	// Guarded by the lock of the pool.
	users int         // calls under way
	idle  *time.Timer // runs while there are none

	login   chan struct{} // held while a session is made or ended
	opening chan struct{} // held while the service root is read

	mu      sync.Mutex
	base    http.RoundTripper // without credentials
	root    *gofish.APIClient // has the service root; nil before the first call
	links   links             // of the service root
	system  string            // path of the only system; empty before it is known
	session session           // the zero value without one
	basicTo time.Time         // until then basic authentication replaces a session
	doubted bool              // the BMC forbade the last login without a reason, and has accepted nothing since
	// bySession: what the BMC accepted last was a login, not basic authentication.
	bySession bool
	noBasic   bool  // the BMC has refused basic authentication since that login
	ungranted error // why basic authentication replaces, or has replaced, a session
}

func newBMC(a access, o Options) *bmc {
	tries := login.NewTries(o.Clock, o.RefusalPause, usernameKey+" and "+passwordKey)
	return &bmc{access: a, clock: o.Clock, tries: tries, login: make(chan struct{}, 1), opening: make(chan struct{}, 1)}
}

// basicFor is how long basic authentication replaces a session that the BMC did not
// grant, for example because others hold all that it has.
const basicFor = 5 * time.Minute

// client returns a client of the library whose requests carry the credentials. Its
// first call reads the service root. All calls share it, because it bounds how many requests
// there are at once.
func (b *bmc) client(ctx context.Context) (*gofish.APIClient, error) {
	if root := b.known(); root != nil {
		return root.WithContext(ctx), nil
	}
	select {
	case b.opening <- struct{}{}:
		defer func() { <-b.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if root := b.known(); root != nil { // another call has read it meanwhile
		return root.WithContext(ctx), nil
	}
	root, err := gofish.ConnectContext(ctx, gofish.ClientConfig{
		Endpoint: b.access.endpoint, NoModifyTransport: true, ReuseConnections: true, MaxConcurrentRequests: connectionsPerBMC,
		HTTPClient: &http.Client{Transport: b, CheckRedirect: b.checkRedirect},
	})
	if err != nil {
		return nil, err
	}
	root.Service.OEM, root.Service.ExtendedInfo = nil, nil // of any size, and not used
	b.mu.Lock()
	b.root = root
	b.mu.Unlock()
	return root.WithContext(ctx), nil
}

// known is the client with the service root, nil before it was read.
func (b *bmc) known() *gofish.APIClient {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.root
}

// token returns the token of a session that is not the expired one, or none when the
// requests use basic authentication.
func (b *bmc) token(ctx context.Context, expired string) (string, error) {
	if b.access.auth == authBasic || b.access.auth == authAuto && b.serviceLinks().grantsNone() {
		return "", nil
	}
	select {
	case b.login <- struct{}{}:
		defer func() { <-b.login }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if token, ok := b.present(expired); ok {
		return token, nil
	}
	if err := b.tries.Permitted(); err != nil { // another call has tried meanwhile
		return "", err
	}
	made, err := b.logIn(ctx)
	if err == nil {
		b.accept(made)
		return made.token, nil
	}
	err = &loginError{err}
	switch {
	case refusesCredentials(err) && (answered(err) != http.StatusForbidden || b.access.auth != authAuto):
		b.tries.Refuse()
	case answered(err) != 0 && b.access.auth == authAuto && b.beginBasic(err):
		return "", nil
	case answered(err) != 0 && b.access.auth == authAuto && mayRefuse(err): // and no basic authentication tells
		b.tries.Refuse()
	}
	return "", err
}

// beginBasic makes basic authentication replace a session that the BMC did not grant. It reports
// false where that is in vain, unless basic authentication has to tell whether the credentials are wrong.
func (b *bmc) beginBasic(ungranted error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	doubted := refusesCredentials(ungranted)
	if b.noBasic && !doubted {
		return false
	}
	b.basicTo, b.doubted, b.ungranted = b.clock().Add(basicFor), doubted, ungranted
	return true
}

// endBasic makes later requests ask for a session again after the BMC refused basic
// authentication, and returns why it granted none. It returns nil when the credentials may be
// wrong: a BMC that accepted them in its last login may have basic authentication disabled.
func (b *bmc) endBasic() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.bySession || b.doubted {
		return nil
	}
	b.basicTo, b.noBasic = time.Time{}, true
	return b.ungranted
}

// present returns what requests use now, unless it has expired.
func (b *bmc) present(expired string) (token string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if token := b.session.token; token != "" && token != expired {
		return token, true
	}
	b.session = session{}
	return "", b.clock().Before(b.basicTo)
}

// accept keeps a session and forgets that the credentials were refused before.
func (b *bmc) accept(made session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.session, b.basicTo, b.doubted = made, time.Time{}, false
	b.bySession, b.noBasic = true, false
	b.tries.Accept()
}

// believe notes that the BMC accepts basic authentication, and forgets that the credentials may be wrong or were refused before.
func (b *bmc) believe() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doubted, b.bySession = false, false
	b.tries.Accept()
}

// doubts reports whether the credentials may be wrong.
func (b *bmc) doubts() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.doubted
}

// carry sends a request as it is. A BMC that does not answer may be starting.
func (b *bmc) carry(r *http.Request) (*http.Response, error) {
	answer, err := b.transport().RoundTrip(r)
	if err != nil && !errors.Is(err, context.Canceled) {
		b.tries.Unanswered()
	}
	note, pause := traceOf(r.Context()), time.Duration(0)
	if err == nil {
		note.answers.Add(1)
		pause = pauseOf(answer, b.clock())
	}
	note.asksFor(pause)
	return answer, err
}

// transport carries requests without adding credentials.
func (b *bmc) transport() http.RoundTripper {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.base
}

// use makes later requests go over a transport.
func (b *bmc) use(base http.RoundTripper) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.base = base
}

// kept is the present session, the zero value when there is none.
func (b *bmc) kept() session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

// systemPath is the path of the only system, empty before it is known.
func (b *bmc) systemPath() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.system
}

func (b *bmc) setSystemPath(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.system = path
}

// forget makes the next call find the service and its system anew.
func (b *bmc) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.root, b.system = nil, ""
}

// pathOf is the path of a link, which some BMCs give with their address. That may be another one
// than the engine has for the BMC.
func pathOf(link string) string {
	to, err := url.Parse(link)
	if err != nil || to.Host == "" {
		return link
	}
	return to.RequestURI()
}
