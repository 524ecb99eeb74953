package imagecache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxHeader limits the head of an answer, in bytes.
const maxHeader = 64 << 10

// maxRedirects is how many redirects a request follows.
const maxRedirects = 5

// newClient returns the client of a cache.
func newClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one, see net/http
		own.MaxIdleConnsPerHost, own.IdleConnTimeout = maxDownloads, time.Minute
		own.DialContext, own.MaxResponseHeaderBytes = dial, maxHeader
		transport = own
	}
	return &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		from := via[len(via)-1].URL
		r.Header.Del("Referer") // its query may have a signature
		switch {
		case len(via) > maxRedirects:
			return final("the server redirects more than %d times", maxRedirects)
		case r.URL.Scheme != "https" && (r.URL.Scheme != "http" || from.Scheme != "http"):
			return final("the server redirects from %s to %s, which is refused", from.Scheme, r.URL.Scheme)
		case redirectsInside(via[0].URL, r.URL):
			return final("the server redirects to an address of this machine or its link, which is refused")
		}
		return nil
	}}
}

// stalledError means that a server sent nothing for so long.
type stalledError time.Duration

func (e stalledError) Error() string {
	return fmt.Sprintf("the server sent nothing for %s", time.Duration(e))
}

// reason returns why a request has failed, without the URL, because the caller names it.
func reason(ctx context.Context, err error) error {
	var stalled stalledError
	if errors.As(context.Cause(ctx), &stalled) {
		return stalled
	}
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// ask requests the rest of the part, if the server can tell whether that belongs to the part.
// Otherwise it requests the whole image, and if the image is in the cache, only if it has changed.
func (d *download) ask(ctx context.Context) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url.String(), nil)
	if err != nil {
		return nil, finalError{err}
	}
	request.Header.Set("Accept-Encoding", "identity") // ranges count the bytes of the file itself
	same := d.part.sameFile()
	switch {
	case d.size > 0 && same != "":
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.size))
		request.Header.Set("If-Range", same)
	case d.have != nil && d.have.ETag != "":
		request.Header.Set("If-None-Match", d.have.ETag)
	case d.have != nil && d.have.LastModified != "":
		request.Header.Set("If-Modified-Since", d.have.LastModified)
	}
	return d.cache.client.Do(request)
}

// temporary are the statuses of refusals that another try may not get.
var temporary = map[int]bool{http.StatusRequestTimeout: true, http.StatusTooEarly: true, http.StatusTooManyRequests: true}

// accept reads the head of an answer. It returns the size of the image, or a negative number if the
// size is unknown. Afterwards d.size is how many bytes of the image are present.
func (d *download) accept(answer *http.Response) (total int64, err error) {
	switch status := answer.StatusCode; {
	case status == http.StatusPartialContent:
		start, total, ok := parseContentRange(answer.Header.Get("Content-Range"))
		if !ok || start != d.size || d.part.differs(noteOf(answer.Header)) {
			d.restart(note{})
			return 0, errors.New("the server sent another part than the one that was asked for")
		}
		return total, nil
	case status == http.StatusOK:
		d.restart(noteOf(answer.Header))
		return answer.ContentLength, nil
	case status == http.StatusNotModified && d.have != nil:
		d.unchanged = true
		return 0, nil
	case status == http.StatusRequestedRangeNotSatisfiable:
		d.restart(note{})
		return 0, errors.New("the server has not the part that is missing")
	case status >= 400 && status < 500 && !temporary[status]:
		return 0, final("the server answers %s", statusOf(answer))
	}
	return 0, fmt.Errorf("the server answers %s", statusOf(answer))
}

// statusOf returns the status of an answer, without the text that the server chose.
func statusOf(answer *http.Response) string {
	return strings.TrimSpace(strconv.Itoa(answer.StatusCode) + " " + http.StatusText(answer.StatusCode))
}

// restart makes the download begin with the first byte.
func (d *download) restart(n note) { d.size, d.part, d.content, d.sum = 0, n, nil, nil }

// parseContentRange reads "bytes START-END/TOTAL" (RFC 9110, section 14.4). A total that the server
// does not know becomes a negative number.
func parseContentRange(text string) (start, total int64, ok bool) {
	span, of, found := strings.Cut(strings.TrimPrefix(text, "bytes "), "/")
	first, _, ranged := strings.Cut(span, "-")
	start, err := strconv.ParseInt(first, 10, 64)
	total = -1
	if of != "*" && err == nil {
		total, err = strconv.ParseInt(of, 10, 64)
	}
	return start, total, found && ranged && err == nil && start >= 0 && strings.HasPrefix(text, "bytes ")
}
