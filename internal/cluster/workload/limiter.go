package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// requestTimeout bounds a request with its answer, and of a watch the time until it
	// begins.
	requestTimeout = 10 * time.Second
	// pause is how long requests fail at once after one that had no answer, so that the
	// machines of a dead cluster do not keep all workers of a controller waiting.
	pause = 30 * time.Second
)

var errNoAnswer = fmt.Errorf("no answer within %s", requestTimeout)

// limiter bounds the requests to one workload cluster. It is safe for concurrent use.
type limiter struct {
	mu     sync.Mutex
	paused time.Time // until then
}

func (l *limiter) wrap(next http.RoundTripper) http.RoundTripper { return limited{next, l} }

// limited is a transport whose requests are bounded. Its errors are ErrNoAccess, unless the
// caller gave up.
type limited struct {
	next http.RoundTripper
	*limiter
}

func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	if until := l.pausedUntil(); !until.IsZero() {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fmt.Errorf("%w: its API server did not answer; it is tried again at %s", ErrNoAccess, until.UTC().Format(time.TimeOnly+" UTC"))
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	timer := time.AfterFunc(requestTimeout, func() { cancel(errNoAnswer) })
	end := func() {
		timer.Stop()
		cancel(nil)
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
	if request.URL.Query().Has("watch") {
		timer.Stop()
	}
	response.Body = body{response.Body, end}
	return response, nil
}

// pausedUntil is when requests are sent again, or zero when they are now.
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

// body ends the time limit of a request when its answer was read.
type body struct {
	io.ReadCloser
	end func()
}

func (b body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
