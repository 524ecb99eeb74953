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

	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/reload"
)

// Limits of comparisons. One comparison takes 50 ms at cost 10 (htpasswd -B -C 10).
const (
	maxWaiting = 256             // requests that may wait for comparisons to end
	maxWait    = 5 * time.Second // longest wait of a request
	guessPause = 3               // pause after a wrong guess, in durations of its comparison
	// maxGuess is the longest time of a guess with its pause. Within maxWait, four guesses of two
	// networks may come before the guess of a third one.
	maxGuess = maxWait / 5
)

// digest is a keyed hash of a user, a password and a stored hash.
type digest [sha256.Size]byte

// user is one line of the file. It keeps the digest of its verified password, so the size of the
// file limits the memory.
type user struct {
	hash     []byte
	verified atomic.Pointer[digest] // nil until the password was verified
}

// users are the users of one version of the file, with their verified passwords.
type users struct {
	byName map[string]*user
	nobody *user // used for users that do not exist
	mixed  bool  // whether their hashes have different costs
}

// verifier checks passwords.
type verifier struct {
	users   *reload.Value[*users]
	key     [sha256.Size]byte // random key of this process, for digests
	compare func(hash, password []byte) error

	turns   *fairqueue.Queue[fairqueue.Network]
	running chan struct{} // has an element for each running comparison
}

func newVerifier(file string, log *slog.Logger, now func() time.Time) (*verifier, error) {
	v := &verifier{compare: bcrypt.CompareHashAndPassword}
	v.limit(max(1, runtime.GOMAXPROCS(0)/2)) // leaves processors to the API during an attack
	_, _ = rand.Read(v.key[:])               // never fails, see crypto/rand
	current := &users{}
	load := func() (*users, error) {
		loaded, err := loadUsers(file, current)
		if err != nil {
			return nil, err
		}
		if loaded.mixed && !current.mixed {
			log.Warn("The users of api.htpasswd_file have several bcrypt costs: the time of a wrong password tells which users exist")
		}
		current = loaded
		return loaded, nil
	}
	var err error
	v.users, err = reload.New("the users of api.htpasswd_file", []string{file}, load, log, now)
	return v, err
}

// limit sets how many comparisons run at once. A single network can take that many turns, which is
// half of all turns. So another network always finds a turn, and then waits no longer than for the
// running comparisons.
func (v *verifier) limit(comparisons int) {
	v.turns = fairqueue.New[fairqueue.Network](2*comparisons, maxWaiting)
	v.running = make(chan struct{}, comparisons)
}

// loadUsers reads the file. Users whose hash is the same as before stay verified.
func loadUsers(file string, before *users) (*users, error) {
	hashes, err := htpasswdFile.read(file)
	if err != nil {
		return nil, err
	}
	loaded := &users{byName: make(map[string]*user, len(hashes))}
	lowest, cost := "99", "00"
	for name, hash := range hashes {
		loaded.byName[name] = before.unchanged(name, hash)
		own := bcryptHash.FindStringSubmatch(hash)[1]
		lowest, cost = min(lowest, own), max(cost, own)
	}
	loaded.mixed = lowest != cost
	// A user that does not exist takes as long as the user with the highest cost. No known password
	// has this hash, and a match would be ignored.
	loaded.nobody = &user{hash: []byte("$2b$" + cost + "$" + strings.Repeat(".", 53))}
	return loaded, nil
}

// unchanged returns the user of this name and hash, a new user if there is none.
func (all *users) unchanged(name, hash string) *user {
	if u, known := all.byName[name]; known && string(u.hash) == hash {
		return u
	}
	return &user{hash: []byte(hash)}
}

// verify returns nil for a valid password, else ErrDenied, ErrOverloaded or the error of ctx. It
// takes microseconds if the same password was verified before. Otherwise it takes one bcrypt
// comparison, for which networks take turns.
func (v *verifier) verify(ctx context.Context, from fairqueue.Network, name, password string) error {
	all := v.users.Get()
	u, known := all.byName[name]
	if !known {
		u = all.nobody
	}
	sum := v.digest(name, password, u.hash)
	if u.isVerified(sum) {
		return nil
	}
	leave, err := v.enter(ctx, from)
	if err != nil {
		return err
	}
	// Clients often open several connections at once. One of their requests compares, and the
	// others find its result when their turn comes.
	if u.isVerified(sum) {
		leave()
		return nil
	}
	began := time.Now()
	if err := v.compare(u.hash, []byte(password)); err != nil || !known {
		// The hash itself is valid, because the file was checked when it was read. The turn stays
		// taken for a pause, so that most of the time goes to other requests.
		took := time.Since(began)
		time.AfterFunc(min(guessPause*took, maxGuess-took), leave)
		return ErrDenied
	}
	u.verified.Store(&sum)
	leave()
	return nil
}

// isVerified reports whether sum is the digest of the verified password. Only existing users ever
// have such a digest.
func (u *user) isVerified(sum digest) bool {
	verified := u.verified.Load()
	return verified != nil && hmac.Equal(verified[:], sum[:])
}

// enter waits for the network's turn, and for a free place among the running comparisons. It takes
// the place until leave is called.
func (v *verifier) enter(ctx context.Context, from fairqueue.Network) (leave func(), err error) {
	wait, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	end, err := v.turns.Enter(wait, from)
	if err == nil {
		select {
		case v.running <- struct{}{}:
			return func() { <-v.running; end() }, nil
		case <-wait.Done():
			end()
		}
	}
	if ctx.Err() != nil { // the client is no longer waiting
		return nil, ctx.Err()
	}
	return nil, ErrOverloaded
}

// digest hashes the three parts. Each has its length before it, so different triples never give the
// same input.
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
