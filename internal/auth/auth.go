// Package auth decides who may use the API. With HTTP basic authentication (RFC
// 7617) users and their bcrypt hashes come from an htpasswd file that is read
// again when it changes.
//
// A password that was verified once takes microseconds until the file changes, so that
// bcrypt does not limit the speed of the API. An unknown user takes as long as a wrong
// password. An attacker who sends wrong passwords can use at most half of the
// processors: further comparisons wait, and then get 503, while users who were verified
// before are not affected.
//
// There are no roles: every authenticated user is an administrator.
package auth

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"
)

// challenge is the WWW-Authenticate header of every 401.
const challenge = `Basic realm="Baremetal API"`

// Texts of the answers. They do not tell an unknown user from a wrong password.
const (
	noCredentials  = "This request needs HTTP basic authentication: send a user name and a password."
	badCredentials = "The user name or the password is wrong."
	overloaded     = "Too many passwords are being checked: try again shortly."
)

// retryAfter is the Retry-After header of an answer to an overload, in
// seconds.
const retryAfter = "2"

// ErrDenied is an unknown user or a wrong password.
var ErrDenied = errors.New("unknown user or wrong password")

// ErrOverloaded means that too many comparisons are waiting.
var ErrOverloaded = errors.New("too many passwords are being checked")

// Options configures authentication.
type Options struct {
	// Public reports whether a route needs no credentials. It gets the
	// pattern that the router matched, never the path of the request, so that
	// no spelling of a path can be public to one and protected to the other.
	// Nil means that no route is public.
	Public func(pattern string) bool
	Logger *slog.Logger
	Now    func() time.Time
}

// Guard refuses requests without valid credentials. It is safe for concurrent use.
type Guard struct {
	public   func(pattern string) bool
	verifier *verifier
}

// New returns a guard for the users of an htpasswd file. A file that cannot be
// read, has an invalid line or has no user is an error. When the file becomes invalid
// later, that is logged, and the users read before stay valid.
func New(file string, opts Options) (*Guard, error) {
	v, err := newVerifier(file, opts.Logger, opts.Now)
	if err != nil {
		return nil, err
	}
	g := &Guard{public: opts.Public, verifier: v}
	if g.public == nil {
		g.public = func(string) bool { return false }
	}
	return g, nil
}

// Wrap returns a handler that checks credentials before next, unless the route is
// public. It must be inside the router, because it reads the request's Pattern.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.public(r.Pattern) {
			next.ServeHTTP(w, r)
			return
		}
		user, password, ok := r.BasicAuth()
		if !ok {
			deny(w, noCredentials)
			return
		}
		err := g.verifier.verify(r.Context(), user, password)
		switch {
		case err == nil:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
		case errors.Is(err, ErrDenied):
			deny(w, badCredentials)
		default: // ErrOverloaded, or the request has ended
			w.Header().Set("Retry-After", retryAfter)
			refuse(w, http.StatusServiceUnavailable, overloaded)
		}
	})
}

func deny(w http.ResponseWriter, message string) {
	w.Header().Set("WWW-Authenticate", challenge)
	refuse(w, http.StatusUnauthorized, message)
}

// refuse writes the error body that Ironic's authentication has. It differs from the
// error body of the API.
func refuse(w http.ResponseWriter, status int, message string) {
	type reason struct {
		Message string `json:"message"`
		Code    int    `json:"code"`
	}
	body, err := json.Marshal(map[string]reason{"error": {message, status}})
	if err != nil {
		panic("auth: an error body cannot be encoded: " + err.Error()) // a string and a number can always be encoded
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

type userKey struct{}

// User returns the authenticated user of the request of ctx, empty when the route is
// public or authentication is off.
func User(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}
