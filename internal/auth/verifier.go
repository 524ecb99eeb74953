package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sync/singleflight"

	"github.com/ingot-metal/ingot/internal/reload"
)

// Bounds of the comparisons. One takes 50 ms at the cost that htpasswd -B -C 10
// has.
const (
	maxWaiting = 64              // comparisons that wait for a processor
	maxWait    = 5 * time.Second // how long one waits
)

// digest is a keyed hash of a user, a password and a stored hash.
type digest [sha256.Size]byte

// user is one line of the file. A user has one password, so one digest remembers
// all that was verified, and memory is bounded by the file.
type user struct {
	hash     []byte
	verified atomic.Pointer[digest] // nil until a password was verified
}

// users is one version of the file. What was verified goes away with it.
type users struct {
	byName map[string]*user
	nobody *user // stands in for users that do not exist
}

// verifier checks passwords.
type verifier struct {
	users   *reload.Value[*users]
	key     [sha256.Size]byte // of this process, for digests
	compare func(hash, password []byte) error

	flights singleflight.Group // by digest: one comparison for equal requests
	running chan struct{}      // a token for each comparison that runs
	waiting atomic.Int64
}

func newVerifier(file string, log *slog.Logger, now func() time.Time) (*verifier, error) {
	// Half of the processors at most: the API goes on while passwords are tried.
	v := &verifier{compare: bcrypt.CompareHashAndPassword, running: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	_, _ = rand.Read(v.key[:]) // never fails, it ends the process instead
	var err error
	v.users, err = reload.New("the users of api.htpasswd_file", []string{file}, func() (*users, error) { return loadUsers(file) }, log, now)
	return v, err
}

func loadUsers(file string) (*users, error) {
	hashes, err := readHtpasswd(file)
	if err != nil {
		return nil, err
	}
	loaded := &users{byName: make(map[string]*user, len(hashes))}
	cost := "00"
	for name, hash := range hashes {
		loaded.byName[name] = &user{hash: []byte(hash)}
		cost = max(cost, bcryptHash.FindStringSubmatch(hash)[1])
	}
	// A user that does not exist costs as much as the dearest that does. No
	// password is known to have this hash, and a match would not count.
	loaded.nobody = &user{hash: []byte("$2b$" + cost + "$" + strings.Repeat(".", 53))}
	return loaded, nil
}

// verify returns nil for a good password, else ErrDenied, ErrOverloaded or why
// ctx ended. It takes microseconds when the same password was good before, and
// one bcrypt comparison otherwise.
func (v *verifier) verify(ctx context.Context, name, password string) error {
	all := v.users.Get()
	u, known := all.byName[name]
	if !known {
		u = all.nobody
	}
	sum := v.digest(name, password, u.hash)
	// Known users only: nothing is ever verified for nobody.
	if verified := u.verified.Load(); verified != nil && hmac.Equal(verified[:], sum[:]) {
		return nil
	}
	// Clients often begin with several connections at once; equal requests share
	// one comparison. It does not end with the request that happened to start it.
	flight := v.flights.DoChan(string(sum[:]), func() (any, error) {
		return nil, v.compareBounded(u.hash, password)
	})
	select {
	case <-ctx.Done():
		return ctx.Err()
	case result := <-flight:
		if result.Err != nil {
			return result.Err
		}
	}
	if !known {
		return ErrDenied
	}
	u.verified.Store(&sum)
	return nil
}

// compareBounded compares when it is its turn.
func (v *verifier) compareBounded(hash []byte, password string) error {
	if v.waiting.Add(1) > maxWaiting {
		v.waiting.Add(-1)
		return ErrOverloaded
	}
	timeout := time.NewTimer(maxWait)
	defer timeout.Stop()
	select {
	case v.running <- struct{}{}:
		v.waiting.Add(-1)
	case <-timeout.C:
		v.waiting.Add(-1)
		return ErrOverloaded
	}
	defer func() { <-v.running }()
	if err := v.compare(hash, []byte(password)); err != nil {
		return ErrDenied // a hash that bcrypt cannot read was refused with the file
	}
	return nil
}

// digest is over the three parts, each with its length before it, so that no two
// triples give the same text.
func (v *verifier) digest(name, password string, hash []byte) digest {
	mac := hmac.New(sha256.New, v.key[:])
	text := make([]byte, 0, 256)
	for _, part := range []string{name, password, string(hash)} {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	mac.Write(text)
	var sum digest
	mac.Sum(sum[:0])
	return sum
}
