package workload

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// silent is a server that never answers.
func silent(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// endless is a server whose answer never ends.
func endless(r *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = writer.CloseWithError(context.Cause(r.Context())) })
	return &http.Response{Body: reader}, nil
}

// request sends a request, and returns the error of sending it or of reading the answer.
func request(ctx context.Context, t *testing.T, transport http.RoundTripper, query string) error {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://192.0.2.1/api/v1/nodes"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.ReadAll(response.Body)
	return err
}

func TestClusterThatDoesNotAnswerIsLeftAloneForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, answers := 0, silent
		transport := newLimiter().wrap(roundTrip(func(r *http.Request) (*http.Response, error) { sent++; return answers(r) }))
		began := time.Now()
		if err := request(t.Context(), t, transport, ""); !errors.Is(err, ErrNoAccess) || time.Since(began) != requestTimeout {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		began = time.Now()
		for range 3 {
			if err := request(t.Context(), t, transport, ""); !errors.Is(err, ErrNoAccess) || !strings.Contains(err.Error(), "tried again at") {
				t.Errorf("error %v", err)
			}
		}
		if sent != 1 || time.Since(began) != 0 {
			t.Errorf("%d requests were sent, the last ones took %s", sent, time.Since(began))
		}
		time.Sleep(pause) //nolint:forbidigo // the clock of synctest
		answers = func(*http.Request) (*http.Response, error) { return &http.Response{Body: http.NoBody}, nil }
		if err := request(t.Context(), t, transport, ""); err != nil || sent != 2 {
			t.Errorf("after the pause: %v, %d requests", err, sent)
		}
	})
}

func TestRefusedConnectionIsTriedAgainAtOnce(t *testing.T) {
	sent, refused := 0, errors.New("connection refused")
	transport := newLimiter().wrap(roundTrip(func(*http.Request) (*http.Response, error) { sent++; return nil, refused }))
	for range 2 {
		if err := request(t.Context(), t, transport, ""); !errors.Is(err, ErrNoAccess) || !errors.Is(err, refused) {
			t.Errorf("error %v", err)
		}
	}
	if sent != 2 {
		t.Errorf("%d requests were sent, want 2", sent)
	}
}

func TestCallerThatGivesUpDoesNotSayThatAClusterIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		limit := newLimiter()
		if err := request(ctx, t, limit.wrap(roundTrip(silent)), ""); err == nil || errors.Is(err, ErrNoAccess) {
			t.Errorf("error %v", err)
		}
		if !limit.pausedUntil().IsZero() {
			t.Error("requests are paused")
		}
	})
}

func TestOnlyWatchesLastLongerThanARequest(t *testing.T) {
	for query, want := range map[string]time.Duration{"": requestTimeout, "?watch=true": time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			err := request(ctx, t, newLimiter().wrap(roundTrip(endless)), query)
			if lasted := time.Since(began); err == nil || lasted != want {
				t.Errorf("%q lasted %s, want %s: %v", query, lasted, want, err)
			}
		})
	}
}

func TestSlowClusterKeepsOnlyAFewCallersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = requestTimeout - time.Second
		transport := newLimiter().wrap(roundTrip(func(*http.Request) (*http.Response, error) {
			time.Sleep(slow) //nolint:forbidigo // the clock of synctest
			return &http.Response{Body: http.NoBody}, nil
		}))
		var callers sync.WaitGroup
		var busy atomic.Int32
		began := time.Now()
		for range maxRequests + 5 {
			callers.Go(func() {
				if err := request(t.Context(), t, transport, ""); errors.Is(err, errBusy) && time.Since(began) == turn {
					busy.Add(1)
				} else if err != nil {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
			})
		}
		callers.Wait()
		if n := busy.Load(); n != 5 || time.Since(began) != slow {
			t.Errorf("%d callers did not wait, the others %s; want 5 and %s", n, time.Since(began), slow)
		}
		if err := request(t.Context(), t, transport, ""); err != nil {
			t.Errorf("when no request is under way: %v", err)
		}
	})
}

func TestAnswersAreReadUpToTheirLimitAndWatchesWithoutOne(t *testing.T) {
	for query, want := range map[string]error{"": errTooLong, "?watch=true": nil} {
		limit := newLimiter()
		limit.longest = 5
		for text, want := range map[string]error{"12345": nil, "123456": want} {
			transport := limit.wrap(roundTrip(func(*http.Request) (*http.Response, error) {
				return &http.Response{Body: io.NopCloser(strings.NewReader(text))}, nil
			}))
			if err := request(t.Context(), t, transport, query); !errors.Is(err, want) {
				t.Errorf("%q with the answer %q: %v, want %v", query, text, err, want)
			}
		}
	}
}
