package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"time"
)

const (
	// requestTimeout limits the time of a request and its answer; of a watch, the time until it
	// begins.
	requestTimeout = 10 * time.Second
	// pause is how long requests fail at once after one that had no answer. Otherwise the machines
	// of a dead cluster would keep all workers of a controller waiting.
	pause = 30 * time.Second
	// maxRequests limits the requests to one workload cluster that are under way, not counting
	// watches. turn is how long other requests wait for their turn before they fail. So a slow
	// cluster keeps few workers of a controller waiting.
	maxRequests, turn = 4, 2 * time.Second
	// maxAnswer is the limit of the answer to a request that is not a watch, in bytes.
	maxAnswer = 64 << 20
)

var (
	errNoAnswer = fmt.Errorf("no answer within %s", requestTimeout)
	errBusy     = fmt.Errorf("%w: its API server is slow, and %d requests to it are under way", ErrNoAccess, maxRequests)
	errTooLong  = fmt.Errorf("%w: the answer of its API server is longer than %d MiB", ErrNoAccess, maxAnswer>>20)
)

// limiter limits the requests to one workload cluster. It is safe for concurrent use.
type limiter struct {
	requests chan struct{} // one for each request under way
	longest  int64         // of an answer, in bytes

	mu     sync.Mutex
	paused time.Time // until then, requests fail at once
}

func newLimiter() *limiter {
	return &limiter{requests: make(chan struct{}, maxRequests), longest: maxAnswer}
}

// begin waits for the turn of a request. end ends the request, and may be called more than once.
func (l *limiter) begin(ctx context.Context) (end func(), err error) {
	timer := time.NewTimer(turn)
	defer timer.Stop()
	select {
	case l.requests <- struct{}{}:
		return sync.OnceFunc(func() { <-l.requests }), nil
	case <-timer.C:
		return nil, errBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *limiter) wrap(next http.RoundTripper) http.RoundTripper { return limited{next, l} }

// limited is a transport that limits requests whatever the server answers: the administrator of a
// workload cluster may want to keep the operator busy, or have it send requests to others. Its
// errors are ErrNoAccess, unless the caller gave up.
type limited struct {
	next http.RoundTripper
	*limiter
}

func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	isWatch := request.URL.Query().Has("watch")
	leave := func() {}
	if !isWatch {
		var err error
		if leave, err = l.begin(request.Context()); err != nil {
			closeBody(request)
			return nil, err
		}
	}
	response, err := l.send(request, isWatch, leave)
	if err != nil {
		leave()
	}
	return response, err
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
}

// send sends a request, and calls leave when the answer's body is closed.
func (l limited) send(request *http.Request, isWatch bool, leave func()) (*http.Response, error) {
	if until := l.pausedUntil(); !until.IsZero() {
		closeBody(request)
		return nil, fmt.Errorf("%w: its API server did not answer; it is tried again at %s", ErrNoAccess, until.UTC().Format(time.TimeOnly+" UTC"))
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	timer := time.AfterFunc(requestTimeout, func() { cancel(errNoAnswer) })
	end := func() {
		timer.Stop()
		cancel(nil)
		leave()
	}
	response, err := l.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		defer end()
		switch {
		case request.Context().Err() != nil:
			return nil, err
		case errors.Is(context.Cause(ctx), errNoAnswer):
			l.pause()
			err = errNoAnswer
		}
		return nil, fmt.Errorf("%w: %w", ErrNoAccess, err)
	}
	if response.StatusCode/100 == 3 && response.Header.Get("Location") != "" {
		_ = response.Body.Close()
		end()
		return nil, fmt.Errorf("%w: its API server answers with a redirect, which is not followed", ErrNoAccess)
	}
	// The client would wait as long as the server says. Controllers try again by themselves.
	response.Header.Del("Retry-After")
	left := l.longest
	if isWatch {
		timer.Stop()
		left = math.MaxInt64
	}
	response.Body = &body{response.Body, left, end}
	return response, nil
}

// pausedUntil returns when requests are sent again, or the zero time when they are sent now.
func (l *limiter) pausedUntil() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.paused) {
		return l.paused
	}
	return time.Time{}
}

func (l *limiter) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = time.Now().Add(pause)
}

// body limits the length of an answer, and ends the time limit of its request when it is closed.
type body struct {
	io.ReadCloser
	left int64
	end  func()
}

func (b *body) Read(into []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(into)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}

func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
