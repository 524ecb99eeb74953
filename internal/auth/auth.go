// Package auth decides who may use the API. With HTTP basic authentication (RFC 7617), users and
// their bcrypt hashes come from an htpasswd file, and their roles from a role file. Both are read
// again when they change.
//
// A password that was verified once takes microseconds until its hash changes, so bcrypt does not
// limit the speed of the API. An unknown user takes as long as a wrong password of the user with
// the highest cost. An attacker who sends wrong passwords from one network can use an eighth of the
// processors, from many a quarter. Further comparisons wait, with different networks taking turns, and after a while
// their requests get 503. Users who were verified before are not affected.
//
// Package httpapi decides what a role may do, because it knows the requests. This package refuses
// users without a role.
package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/role"
)

// challenge is the WWW-Authenticate header of every 401.
const challenge = `Basic realm="Baremetal API"`

// Texts of the answers. They do not tell an unknown user from a wrong password.
const (
	noCredentials  = "This request needs HTTP basic authentication: send a user name and a password."
	badCredentials = "The user name or the password is wrong."
	overloaded     = "Too many passwords are being checked: try again shortly."
	noRole         = "The user %q has no role: add the user to the file that the setting api.role_file of the engine names."
)

// retryAfter is the Retry-After header of an answer to an overload, in
// seconds.
const retryAfter = "2"

// ErrDenied means an unknown user or a wrong password.
var ErrDenied = errors.New("unknown user or wrong password")

// ErrOverloaded means that too many comparisons are waiting.
var ErrOverloaded = errors.New("too many passwords are being checked")

// Options configures authentication.
type Options struct {
	// RoleFile has a line "user: role" for each user. Users without a line are refused. Empty means
	// that every user is an administrator.
	RoleFile string
	Logger   *slog.Logger
	Now      func() time.Time
}

// Guard refuses requests without valid credentials. It is safe for concurrent use.
type Guard struct {
	verifier *verifier
	roles    roles
}

// New returns a guard for the users of an htpasswd file. It fails if a file cannot be read, has an
// invalid line or has no user. If a file becomes invalid later, that is logged, and the earlier
// content stays valid.
func New(file string, opts Options) (*Guard, error) {
	v, err := newVerifier(file, opts.Logger, opts.Now)
	if err != nil {
		return nil, err
	}
	known, err := newRoles(opts.RoleFile, opts.Logger, opts.Now)
	if err != nil {
		return nil, err
	}
	return &Guard{verifier: v, roles: known}, nil
}

// Wrap returns a handler that calls next for requests with valid credentials whose user has a role.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, ok := r.BasicAuth()
		if !ok {
			deny(w, noCredentials)
			return
		}
		err := g.verifier.verify(r.Context(), networkOf(r), user, password)
		switch {
		case err == nil:
			g.admit(w, r, next, user)
		case errors.Is(err, ErrDenied):
			deny(w, badCredentials)
		default: // ErrOverloaded, or the request has ended
			w.Header().Set("Retry-After", retryAfter)
			refuse(w, http.StatusServiceUnavailable, overloaded)
		}
	})
}

// networkOf returns the network of the client, or of the proxy before it.
func networkOf(r *http.Request) fairqueue.Network {
	client, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero value stands for all unknown addresses
	return fairqueue.NetworkOf(client.Addr())
}

// admit passes on a request of an authenticated user who has a role.
func (g *Guard) admit(w http.ResponseWriter, r *http.Request, next http.Handler, user string) {
	id := identity{user: user, role: g.roles.of(user)}
	if id.role == role.None {
		refuse(w, http.StatusForbidden, fmt.Sprintf(noRole, user))
		return
	}
	next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, id)))
}

func deny(w http.ResponseWriter, message string) {
	w.Header().Set("WWW-Authenticate", challenge)
	refuse(w, http.StatusUnauthorized, message)
}

// refuse writes an error body in the form of Ironic's authentication. It differs from the error
// body of the API.
func refuse(w http.ResponseWriter, status int, message string) {
	type reason struct {
		Message string `json:"message"`
		Code    int    `json:"code"`
	}
	body, err := json.Marshal(map[string]reason{"error": {message, status}})
	if err != nil {
		panic("auth: an error body cannot be encoded: " + err.Error()) // cannot happen
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// identity is who sent a request.
type identity struct {
	user string
	role role.Role
}

type identityKey struct{}

func identityOf(ctx context.Context) identity {
	id, _ := ctx.Value(identityKey{}).(identity)
	return id
}

// User returns the authenticated user of the request of ctx, empty if the request passed no guard.
func User(ctx context.Context) string { return identityOf(ctx).user }

// Role returns the role of the authenticated user of the request of ctx, role.None if the request
// passed no guard.
func Role(ctx context.Context) role.Role { return identityOf(ctx).role }
