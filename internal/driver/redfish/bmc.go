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

// bmc is one BMC with the credentials that nodes have for it. It is an [http.RoundTripper] that
// adds the credentials to requests, so that the library does not handle them.
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
	// doubted: the BMC forbade the last login without a reason, and has accepted nothing since.
	doubted bool
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

// client returns a client of the library whose requests carry the credentials. The first call reads
// the service root. All calls share one client, because it bounds how many requests run at once.
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

// known returns the client with the service root, or nil before the service root was read.
func (b *bmc) known() *gofish.APIClient {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.root
}

// token returns the token of a session other than the expired one. The token is empty when requests
// use basic authentication.
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
	case answered(err) != 0 && b.access.auth == authAuto && mayRefuse(err):
		// Basic authentication cannot tell whether the credentials are wrong.
		b.tries.Refuse()
	}
	return "", err
}

// beginBasic makes basic authentication replace a session that the BMC did not grant. It returns
// false, and changes nothing, if the BMC has refused basic authentication since the last login. If
// the credentials may be wrong, it begins all the same: the answer to basic authentication has to
// tell.
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

// endBasic makes later requests ask for a session again after the BMC refused basic authentication,
// and returns the error with which the BMC granted none. It returns nil, and changes nothing, when
// the credentials may be wrong. If the BMC accepted them in a login last, they are right, and basic
// authentication may be disabled.
func (b *bmc) endBasic() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.bySession || b.doubted {
		return nil
	}
	b.basicTo, b.noBasic = time.Time{}, true
	return b.ungranted
}

// present returns the token of the session, unless that is the expired one. Without a session, the
// token is empty, and ok reports whether basic authentication replaces the session now.
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

// believe notes that the BMC accepts basic authentication. It forgets that the credentials may be
// wrong or were refused before.
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

// carry sends a request as it is. It notes a BMC that does not answer, because the BMC may be
// starting, and for how long the BMC asks to be left alone.
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

// kept returns the present session, or the zero value when there is none.
func (b *bmc) kept() session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

// systemPath returns the path of the only system, empty before it is known.
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

// pathOf returns the path of a link. Some BMCs give links with an address, which may differ from
// the one that the engine has for the BMC.
func pathOf(link string) string {
	to, err := url.Parse(link)
	if err != nil || to.Host == "" {
		return link
	}
	return to.RequestURI()
}
