package ipmi

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/login"
)

// forgetAfter is how long the driver remembers whether a BMC accepts credentials that no node uses.
const forgetAfter = 24 * time.Hour

// accounts are the accounts that calls use now, or have used not long ago.
type accounts struct {
	options Options

	mu    sync.Mutex
	known map[access]*account
}

// account is an account on one BMC.
type account struct {
	access access
	tries  *login.Tries
	login  chan struct{} // held while a session is opened: BMCs count refusals

	// Guarded by the lock of the accounts.
	users  int         // calls under way
	forget *time.Timer // runs while there are none
}

// take returns the account for a call, which must end with its release.
func (s *accounts) take(a access) *account {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.known[a]
	if !ok {
		known = &account{
			access: a, login: make(chan struct{}, 1),
			tries: login.NewTries(s.options.Clock, s.options.RefusalPause, usernameKey+" and "+passwordKey),
		}
		s.known[a] = known
	}
	known.users++
	if known.forget != nil {
		known.forget.Stop()
	}
	return known
}

// release ends a call.
func (s *accounts) release(a *account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.users--; a.users > 0 {
		return
	}
	a.forget = time.AfterFunc(forgetAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if a.users == 0 && s.known[a.access] == a {
			delete(s.known, a.access)
		}
	})
}

// open opens a session, unless the BMC has refused the credentials too often.
func (a *account) open(ctx context.Context, o Options) (*session, error) {
	select {
	case a.login <- struct{}{}:
		defer func() { <-a.login }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := a.tries.Permitted(); err != nil {
		return nil, err
	}
	s, err := connect(ctx, a.access, o)
	switch {
	case err == nil:
		a.tries.Accept()
	case isRefusedLogin(err):
		a.tries.Refuse()
	case errors.Is(err, errNoAnswer), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ECONNREFUSED):
		a.tries.Unanswered()
	}
	return s, err
}
