package firmware

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
)

// userAgent is the one that iPXE sends.
const userAgent = "iPXE/1.21.1"

// open begins a download over HTTP or HTTPS. The answer must have status 200.
func (l *Loader) open(ctx context.Context, target string) (*http.Response, error) {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no http or https URL", target)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", userAgent)
	answer, err := l.client.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close()
		return nil, fmt.Errorf("%s is answered %s", target, answer.Status)
	}
	return answer, nil
}

// fetch downloads at most limit bytes into a writer and returns how many there were. An empty
// answer is an error.
func (l *Loader) fetch(ctx context.Context, target string, limit int64, into io.Writer) (int64, error) {
	answer, err := l.open(ctx, target)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	n, err := io.Copy(into, io.LimitReader(answer.Body, limit+1))
	switch {
	case err != nil:
		return n, fmt.Errorf("download %s: %w", target, err)
	case n > limit:
		return n, fmt.Errorf("%s has more than %d bytes", target, limit)
	case n == 0:
		return n, fmt.Errorf("%s is empty", target)
	}
	return n, nil
}

// keep downloads a medium into a file without a name and calls use with it. If too many media are
// kept, it waits.
func (l *Loader) keep(ctx context.Context, target string, use func(io.ReaderAt) error) error {
	select {
	case l.media <- struct{}{}:
		defer func() { <-l.media }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	file, err := os.CreateTemp("", "ingot-medium-")
	if err != nil {
		return fmt.Errorf("keep a medium: %w", err)
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return fmt.Errorf("keep a medium: %w", err)
	}
	if _, err := l.fetch(ctx, target, maxMedium, file); err != nil {
		return err
	}
	return use(file)
}
