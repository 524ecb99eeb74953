package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/ingot-metal/ingot/internal/fairqueue"
)

// here is where requests without an address come from.
var here fairqueue.Network

// htpasswd writes a file of users with the cheapest hashes, as if long ago.
func htpasswd(t testing.TB, path string, passwords map[string]string) {
	t.Helper()
	var content strings.Builder
	for user, password := range passwords {
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&content, "%s:%s\n", user, hash)
	}
	write(t, path, content.String())
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
}

// gate is a guard over ann and bob that counts what bcrypt is asked.
type gate struct {
	*Guard
	file     string
	compared atomic.Int64
	skipped  atomic.Int64 // added to the clock, in nanoseconds
}

func newGate(t testing.TB, change ...func(*Options)) *gate {
	t.Helper()
	g := &gate{file: filepath.Join(t.TempDir(), "htpasswd")}
	htpasswd(t, g.file, map[string]string{"ann": "secret", "bob": "other"})
	start := time.Now()
	options := Options{
		Logger: slog.New(slog.DiscardHandler),
		Now:    func() time.Time { return start.Add(time.Duration(g.skipped.Load())) },
	}
	for _, c := range change {
		c(&options)
	}
	var err error
	g.Guard, err = New(g.file, options)
	if err != nil {
		t.Fatal(err)
	}
	compare := g.verifier.compare
	g.verifier.compare = func(hash, password []byte) error {
		g.compared.Add(1)
		return compare(hash, password)
	}
	return g
}

// ask sends a request through the guard; the answer of what is behind it is the
// user's name.
func (g *gate) ask(pattern string, credentials func(*http.Request)) *httptest.ResponseRecorder {
	mux := http.NewServeMux()
	mux.Handle(pattern, g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello "+User(r.Context()))
	})))
	r := httptest.NewRequest(http.MethodGet, pattern, nil)
	if credentials != nil {
		credentials(r)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

func as(user, password string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(user, password) }
}

func header(value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", value) }
}

func TestOnlyGoodCredentialsPass(t *testing.T) {
	tests := map[string]struct {
		credentials func(*http.Request)
		want        string // body; empty means refused
	}{
		"right":                   {as("ann", "secret"), "hello ann"},
		"scheme in small letters": {header("basic YW5uOnNlY3JldA=="), "hello ann"},
		"none":                    {nil, ""},
		"wrong password":          {as("ann", "Secret"), ""},
		"password of another":     {as("ann", "other"), ""},
		"empty password":          {as("ann", ""), ""},
		"longer password":         {as("ann", "secret "), ""},
		"zero byte after it":      {as("ann", "secret\x00"), ""},
		"unknown user":            {as("eve", "secret"), ""},
		"user in other letters":   {as("Ann", "secret"), ""},
		"empty user":              {as("", "secret"), ""},
		"user with a colon":       {as("ann:secret", ""), ""},
		"very long":               {as("ann", strings.Repeat("x", 60_000)), ""},
		"the hash":                {as("ann", "$2a$04$"), ""},
		"token":                   {header("Bearer YW5uOnNlY3JldA=="), ""},
		"not base64":              {header("Basic ann:secret"), ""},
		"no colon":                {header("Basic YW5u"), ""},
		"other header":            {func(r *http.Request) { r.Header.Set("X-Auth-Token", "secret") }, ""},
	}
	g := newGate(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the second time something may be remembered
				got := g.ask("/closed", test.credentials)
				if test.want != "" {
					if got.Code != http.StatusOK || got.Body.String() != test.want {
						t.Errorf("got %d %q, want %q", got.Code, got.Body, test.want)
					}
					continue
				}
				if got.Code != http.StatusUnauthorized {
					t.Fatalf("got status %d, want 401", got.Code)
				}
				if value := got.Header().Get("WWW-Authenticate"); value != `Basic realm="Baremetal API"` {
					t.Errorf("got WWW-Authenticate %q", value)
				}
				if value := got.Header().Get("Content-Type"); value != "application/json" {
					t.Errorf("got Content-Type %q", value)
				}
				if body := got.Body.String(); !strings.HasPrefix(body, `{"error":{"message":"`) || !strings.HasSuffix(body, `","code":401}}`) {
					t.Errorf("got body %s", body)
				}
			}
		})
	}
}

func TestVerifiedPasswordIsComparedOnce(t *testing.T) {
	g := newGate(t)
	for range 100 {
		for user, password := range map[string]string{"ann": "secret", "bob": "other"} {
			if got := g.ask("/closed", as(user, password)); got.Code != http.StatusOK {
				t.Fatalf("got status %d", got.Code)
			}
		}
	}
	if count := g.compared.Load(); count != 2 {
		t.Errorf("compared %d times, want once for each of 2 users", count)
	}
}

func TestWrongPasswordIsComparedEveryTimeAndForgetsNothing(t *testing.T) {
	g := newGate(t)
	g.ask("/closed", as("ann", "secret"))
	for range 5 {
		g.ask("/closed", as("ann", "wrong"))
	}
	if count := g.compared.Load(); count != 6 {
		t.Errorf("compared %d times, want 6", count)
	}
	g.ask("/closed", as("ann", "secret"))
	if count := g.compared.Load(); count != 6 {
		t.Error("a wrong password made the right one be compared again")
	}
}

func TestUnknownUserCostsAComparisonOfTheCostliestHash(t *testing.T) {
	g := newGate(t)
	write(t, g.file, "ann:$2y$05$"+tail+"\nbob:$2b$06$"+tail+"\n")
	all, err := loadUsers(g.file, &users{})
	if err != nil {
		t.Fatal(err)
	}
	if cost, err := bcrypt.Cost(all.nobody.hash); err != nil || cost != 6 {
		t.Errorf("got cost %d, %v, want 6", cost, err)
	}
	if err := bcrypt.CompareHashAndPassword(all.nobody.hash, []byte("x")); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		t.Errorf("got %v, want a comparison that is made to its end", err)
	}
	g.ask("/closed", as("eve", "x"))
	if g.compared.Load() != 1 {
		t.Error("an unknown user is answered without a comparison")
	}
	g.verifier.compare = func(_, _ []byte) error { return nil }
	for range 2 {
		if got := g.ask("/closed", as("eve", "x")); got.Code != http.StatusUnauthorized {
			t.Error("nobody's password let somebody in")
		}
	}
}

func TestSeveralCostsAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	g := newGate(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	if log.Len() > 0 {
		t.Errorf("users with one cost: logged %s", log.String())
	}
	for _, user := range []string{"eve", "fay"} {
		write(t, g.file, "ann:$2y$05$"+tail+"\nbob:$2b$06$"+tail+"\n"+user+":$2b$06$"+tail+"\n")
		g.skipped.Add(int64(time.Second))
		if g.verifier.users.Get().byName[user] == nil {
			t.Fatal("the file was not read again")
		}
	}
	if lines := strings.Count(log.String(), "several bcrypt costs"); lines != 1 {
		t.Errorf("%d lines, want 1: %s", lines, log.String())
	}
}

func TestChangedFileCountsWithinASecond(t *testing.T) {
	g := newGate(t)
	if got := g.ask("/closed", as("ann", "secret")); got.Code != http.StatusOK {
		t.Fatalf("got status %d", got.Code)
	}
	htpasswd(t, g.file, map[string]string{"ann": "changed", "cid": "new"})
	g.skipped.Add(int64(time.Second))
	for _, test := range []struct {
		user, password string
		want           int
	}{
		{"ann", "secret", http.StatusUnauthorized},
		{"ann", "changed", http.StatusOK},
		{"bob", "other", http.StatusUnauthorized},
		{"cid", "new", http.StatusOK},
	} {
		if got := g.ask("/closed", as(test.user, test.password)); got.Code != test.want {
			t.Errorf("%s with %q: got status %d, want %d", test.user, test.password, got.Code, test.want)
		}
	}
}

func TestUsersStayVerifiedWhenOthersChange(t *testing.T) {
	g := newGate(t)
	g.ask("/closed", as("ann", "secret"))
	before, err := os.ReadFile(g.file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, g.file, string(before)+"cid:$2y$04$"+tail+"\n")
	g.skipped.Add(int64(time.Second))
	if got := g.ask("/closed", as("ann", "secret")); got.Code != http.StatusOK || g.compared.Load() != 1 {
		t.Errorf("got status %d after %d comparisons, want 200 after the first alone", got.Code, g.compared.Load())
	}
	if len(g.verifier.users.Get().byName) != 3 {
		t.Error("the file was not read again")
	}
}

func TestSpoiledFileLocksNobodyOut(t *testing.T) {
	g := newGate(t)
	write(t, g.file, "ann:plain\n")
	g.skipped.Add(int64(time.Minute))
	if got := g.ask("/closed", as("ann", "secret")); got.Code != http.StatusOK {
		t.Errorf("got status %d", got.Code)
	}
	if got := g.ask("/closed", as("ann", "plain")); got.Code != http.StatusUnauthorized {
		t.Errorf("a line that is no hash let somebody in: %d", got.Code)
	}
}

func TestMissingOrBadFileIsAnErrorThatNamesIt(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	write(t, bad, "ann:hunter2\n")
	for path, want := range map[string]string{bad: "line 1", filepath.Join(dir, "none"): "no such file", dir: "directory"} {
		_, err := New(path, Options{Logger: slog.Default(), Now: time.Now})
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want an error with %q", path, err, want)
		}
	}
}

func TestEqualRequestsShareOneComparison(t *testing.T) {
	g := newGate(t)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		compared := 0
		g.verifier.limit(1)
		g.verifier.compare = func(_, _ []byte) error {
			compared++
			<-release
			return nil
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if err := g.verifier.verify(t.Context(), here, "ann", "secret"); err != nil {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		close(release)
		all.Wait()
		if compared != 1 {
			t.Errorf("compared %d times, want 1", compared)
		}
	})
}

// TestFloodOfWrongPasswordsIsBounded starts more comparisons than there is room for. A few run,
// some wait, and the rest and those that waited too long get 503. Users who were verified before do
// not notice.
func TestFloodOfWrongPasswordsIsBounded(t *testing.T) {
	g := newGate(t)
	if got := g.ask("/closed", as("ann", "secret")); got.Code != http.StatusOK {
		t.Fatalf("got status %d", got.Code)
	}
	synctest.Test(t, func(t *testing.T) {
		const flood, room = maxWaiting + 100, 2
		release := make(chan struct{})
		var running, most atomic.Int64
		g.verifier.limit(room)
		g.verifier.compare = func(_, _ []byte) error {
			most.Store(max(most.Load(), running.Add(1)))
			<-release
			running.Add(-1)
			return bcrypt.ErrMismatchedHashAndPassword
		}
		statuses := make(chan int, flood)
		var all sync.WaitGroup
		for i := range flood {
			all.Go(func() {
				got := g.ask("/closed", as("ann", fmt.Sprint("guess", i)))
				if got.Code == http.StatusServiceUnavailable && got.Header().Get("Retry-After") == "" {
					t.Error("503 without Retry-After")
				}
				statuses <- got.Code
			})
		}
		synctest.Wait()
		if got := len(statuses); got != flood-room-maxWaiting {
			t.Errorf("%d were refused at once, want %d", got, flood-room-maxWaiting)
		}
		if got := g.ask("/closed", as("ann", "secret")); got.Code != http.StatusOK {
			t.Errorf("a verified user got status %d during the flood", got.Code)
		}
		time.Sleep(maxWait) //nolint:forbidigo // the time of the bubble
		synctest.Wait()
		close(release)
		all.Wait()
		counts := map[int]int{}
		for range flood {
			counts[<-statuses]++
		}
		if counts[http.StatusServiceUnavailable] != flood-room || counts[http.StatusUnauthorized] != room {
			t.Errorf("got statuses %v, want %d of 401 and the rest 503", counts, room)
		}
		if most.Load() > room {
			t.Errorf("%d comparisons ran at once, want at most %d", most.Load(), room)
		}
		time.Sleep(guessPause * maxWait) //nolint:forbidigo // the time of the bubble
		synctest.Wait()
		if g.verifier.turns.Busy(networkOf(httptest.NewRequest(http.MethodGet, "/", nil))) {
			t.Error("a turn was not given back")
		}
	})
}

// comparesIn returns a comparison that takes a time of the bubble. The password "other" is right.
func comparesIn(took time.Duration) func(hash, password []byte) error {
	return func(_, password []byte) error {
		time.Sleep(took) //nolint:forbidigo // the time of the bubble
		if string(password) == "other" {
			return nil
		}
		return bcrypt.ErrMismatchedHashAndPassword
	}
}

func TestFloodOfWrongPasswordsLeavesTurnsToOtherNetworks(t *testing.T) {
	g := newGate(t)
	synctest.Test(t, func(t *testing.T) {
		g.verifier.limit(1)
		g.verifier.compare = comparesIn(50 * time.Millisecond)
		var flood sync.WaitGroup
		for i := range maxWaiting + 100 {
			flood.Go(func() { g.ask("/closed", as("ann", fmt.Sprint("guess", i))) })
		}
		synctest.Wait()
		got := g.ask("/closed", func(r *http.Request) {
			r.RemoteAddr = "192.0.2.2:1234"
			r.SetBasicAuth("bob", "other")
		})
		if got.Code != http.StatusOK {
			t.Errorf("the right password from another network got status %d", got.Code)
		}
		flood.Wait()
		time.Sleep(time.Second) //nolint:forbidigo // the time of the bubble
	})
}

// TestTwoNetworksThatGuessLeaveTurnsToOthersWhenComparisonsTakeLong has comparisons that take as
// long as at cost 14.
func TestTwoNetworksThatGuessLeaveTurnsToOthersWhenComparisonsTakeLong(t *testing.T) {
	g := newGate(t)
	synctest.Test(t, func(t *testing.T) {
		g.verifier.limit(1)
		g.verifier.compare = comparesIn(800 * time.Millisecond)
		from := func(address, user, password string) int {
			return g.ask("/closed", func(r *http.Request) {
				r.RemoteAddr = address + ":1234"
				r.SetBasicAuth(user, password)
			}).Code
		}
		var flood sync.WaitGroup
		for i := range maxWaiting {
			flood.Go(func() { from(fmt.Sprint("192.0.2.", 1+i%2), "ann", fmt.Sprint("guess", i)) })
		}
		synctest.Wait()
		if got := from("192.0.2.3", "bob", "other"); got != http.StatusOK {
			t.Errorf("the right password from a third network got status %d", got)
		}
		flood.Wait()
		time.Sleep(maxGuess) //nolint:forbidigo // the time of the bubble
	})
}

func TestNothingIsComparedForAClientThatClosedItsConnection(t *testing.T) {
	g := newGate(t)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		compared := 0
		g.verifier.limit(1)
		g.verifier.compare = func(_, _ []byte) error { compared++; <-release; return nil }
		ctx, cancel := context.WithCancel(t.Context())
		verify := func(ctx context.Context, user, password string) <-chan error {
			result := make(chan error, 1)
			go func() { result <- g.verifier.verify(ctx, here, user, password) }()
			synctest.Wait()
			return result
		}
		running := verify(t.Context(), "ann", "secret")
		closed := verify(ctx, "bob", "guess")
		other := verify(t.Context(), "bob", "other")
		cancel()
		if err := <-closed; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the end of the request", err)
		}
		close(release)
		for _, result := range []<-chan error{running, other} {
			if err := <-result; err != nil {
				t.Errorf("got %v", err)
			}
		}
		if compared != 2 {
			t.Errorf("compared %d times, want 2", compared)
		}
	})
}

func TestGuessesLeaveMostOfTheTimeToOthers(t *testing.T) {
	g := newGate(t)
	synctest.Test(t, func(t *testing.T) {
		const takes = 50 * time.Millisecond
		g.verifier.limit(1)
		g.verifier.compare = func(_, _ []byte) error {
			time.Sleep(takes) //nolint:forbidigo // the time of the bubble
			return bcrypt.ErrMismatchedHashAndPassword
		}
		began := time.Now()
		for i := range 3 {
			if err := g.verifier.verify(t.Context(), here, "ann", fmt.Sprint("guess", i)); !errors.Is(err, ErrDenied) {
				t.Errorf("got %v, want ErrDenied", err)
			}
		}
		if took := time.Since(began); took != 9*takes { // the third is answered before its pause
			t.Errorf("3 guesses took %v, want %v", took, 9*takes)
		}
		time.Sleep(guessPause * takes) //nolint:forbidigo // the time of the bubble
	})
}

func TestDigestTellsPartsApart(t *testing.T) {
	v := newGate(t).verifier
	seen := map[digest]string{}
	for _, parts := range [][3]string{{"a", "bc", "d"}, {"ab", "c", "d"}, {"a", "b", "cd"}, {"", "abc", "d"}, {"a", "bc", "e"}} {
		sum := v.digest(parts[0], parts[1], []byte(parts[2]))
		if other, twice := seen[sum]; twice {
			t.Errorf("%q and %s have one digest", parts, other)
		}
		seen[sum] = fmt.Sprint(parts)
	}
	if v.digest("a", "b", nil) == newGate(t).verifier.digest("a", "b", nil) {
		t.Error("two processes have one key")
	}
}

// BenchmarkVerifiedRequest is what authentication adds to a request whose
// password was verified before.
func BenchmarkVerifiedRequest(b *testing.B) {
	g := newGate(b)
	served := 0
	handler := g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	r := httptest.NewRequest(http.MethodGet, "/closed", nil)
	r.SetBasicAuth("ann", "secret")
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(w, r)
	}
	if served != b.N {
		b.Fatalf("%d of %d requests were served", served, b.N)
	}
}
