package redfish

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/schemas"
)

// checkRedirect follows a BMC to another of its paths, but to no other server. It does not follow a
// redirect that turns a change into a read: the answer to the read would be taken for the answer to
// the change.
func (b *bmc) checkRedirect(r *http.Request, via []*http.Request) error {
	switch {
	case b.checkServer(r) != nil:
		return fmt.Errorf("the BMC redirects to another server, %s://%s", r.URL.Scheme, r.URL.Host)
	case r.Method != via[0].Method:
		return fmt.Errorf("the BMC answered a %s with a redirect to a %s", via[0].Method, r.Method)
	case len(via) > 3:
		return errors.New("the BMC redirects in a circle")
	}
	return nil
}

// checkServer refuses a request to another server than the BMC. The library appends links to the
// endpoint, so that a link that begins with "@" or "." changes the host.
func (b *bmc) checkServer(r *http.Request) error {
	if to := r.URL.Scheme + "://" + r.URL.Host; to != b.access.endpoint || r.URL.User != nil {
		return fmt.Errorf("a link of the BMC leads to another server, %s", to)
	}
	return nil
}

// RoundTrip sends a request with the credentials. If the BMC refuses the entity tag that it gave
// itself, or asks for one, RoundTrip sends the request again with another tag, or without. That is
// safe, because the BMC has done nothing before.
func (b *bmc) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := b.checkServer(r); err != nil {
		return nil, err
	}
	answer, err := b.authorized(r)
	switch {
	case err == nil && readsRoot(r) && answer.StatusCode == http.StatusOK:
		return b.noteLinks(answer)
	case !changes(r.Method):
		return answer, err
	}
	for err == nil {
		tag, other := otherTag(r.Header.Get(ifMatch), answer.StatusCode)
		if !other {
			break
		}
		discard(answer)
		if r, err = repeated(r); err != nil {
			return nil, err
		}
		r.Header.Del(ifMatch)
		if tag != "" {
			r.Header.Set(ifMatch, tag)
		}
		answer, err = b.authorized(r)
	}
	return answer, err
}

const ifMatch = "If-Match"

// otherTag returns the entity tag to send after the BMC refused a request with a tag, or without
// one; an empty tag means none. A weak tag never matches on a BMC that compares as RFC 9110,
// section 13.1.1, says, but the strong tag of the same version may. The tries end, because their
// order is weak, strong, none and "*", and each leads only to a later one.
func otherTag(refused string, status int) (tag string, other bool) {
	strong, weak := strings.CutPrefix(refused, "W/")
	switch {
	case status == http.StatusPreconditionRequired:
		return "*", refused != "*"
	case status != http.StatusPreconditionFailed || refused == "":
		return "", false
	case weak:
		return strong, true
	}
	return "", refused != "*"
}

// repeated returns a request to send again.
func repeated(r *http.Request) (again *http.Request, err error) {
	again = r.Clone(r.Context())
	if r.GetBody != nil {
		again.Body, err = r.GetBody()
	}
	return again, err
}

// authorized sends a request with the credentials. When the BMC has ended the session, authorized
// makes a new one and sends the request again: the BMC refused it before it did anything.
func (b *bmc) authorized(r *http.Request) (*http.Response, error) {
	if b.access.username == "" || isPublic(r) {
		return b.send(r, "")
	}
	if err := b.tries.Permitted(); err != nil {
		return nil, err
	}
	token, err := b.token(r.Context(), "")
	if err != nil {
		return nil, err
	}
	answer, err := b.send(r, token)
	switch {
	case err != nil:
		return nil, err
	case token == "":
		return b.judge(r, answer)
	case answer.StatusCode < http.StatusBadRequest:
		b.tries.Started()
		return answer, nil
	case answer.StatusCode != http.StatusUnauthorized:
		return answer, nil
	}
	discard(answer)
	before := b.kept()
	if token, err = b.token(r.Context(), token); err != nil {
		return nil, err
	}
	again, err := repeated(r)
	if err != nil {
		return nil, err
	}
	answer, err = b.send(again, token)
	switch {
	case err == nil && token == "":
		return b.judge(again, answer)
	case err == nil && answer.StatusCode == http.StatusUnauthorized:
		b.restore(r.Context(), before)
	}
	return answer, err
}

// judge learns from the answer to a request with basic authentication whether the BMC accepts the
// credentials. If the BMC forbade the login without a reason, a read that it forbids without a
// reason counts as a refused login, too.
func (b *bmc) judge(r *http.Request, answer *http.Response) (*http.Response, error) {
	switch {
	case answer.StatusCode == http.StatusUnauthorized:
		ungranted := b.endBasic()
		if ungranted == nil || mayRefuse(ungranted) {
			b.tries.Refuse()
		}
		if ungranted != nil {
			discard(answer)
			return nil, ungranted
		}
	case answer.StatusCode < http.StatusMultipleChoices:
		b.believe()
	case answer.StatusCode == http.StatusForbidden && !changes(r.Method) && b.doubts():
		text, err := textOf(answer)
		if err != nil {
			return nil, err
		}
		if err := (&loginError{schemas.ConstructError(answer.StatusCode, text)}); refusesCredentials(err) {
			b.tries.Refuse()
			return nil, err
		}
	}
	return answer, nil
}

// isPublic reports whether a request needs no credentials: DSP0266 lets everybody read
// the versions and the service root.
func isPublic(r *http.Request) bool {
	switch r.URL.Path {
	case "/redfish", "/redfish/", "/redfish/v1", "/redfish/v1/":
		return r.Method == http.MethodGet
	}
	return false
}

// readsRoot reports whether a request reads the service root.
func readsRoot(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.TrimSuffix(r.URL.Path, "/") == "/redfish/v1"
}

// send sends a request with a session's token, or with the credentials when the token
// is empty.
func (b *bmc) send(r *http.Request, token string) (*http.Response, error) {
	r = r.Clone(r.Context())
	switch {
	case token != "":
		r.Header.Set(tokenHeader, token)
	case b.access.username != "" && !isPublic(r):
		r.SetBasicAuth(b.access.username, b.access.password)
	}
	note := traceOf(r.Context())
	if !note.reads(0) {
		return nil, errAnswers
	}
	if note.origin != "" {
		r.Header.Set("X-Request-Id", note.origin) // BMCs that log requests log it
	}
	note.begins(r.Method)
	answer, err := b.carry(r)
	note.ends(r.Method, answer, err)
	if err != nil {
		return nil, err
	}
	answer.Body = bounded(answer.Body, note)
	return answer, nil
}

// longestPause bounds for how long a BMC is left alone because it asks for that.
const longestPause = 5 * time.Minute

// pauseOf returns how long a BMC that cannot answer now asks to be left alone (Retry-After, RFC
// 9110, section 10.2.3), at most longestPause; 0 when the BMC does not say.
func pauseOf(answer *http.Response, now time.Time) time.Duration {
	if answer.StatusCode != http.StatusServiceUnavailable && answer.StatusCode != http.StatusTooManyRequests {
		return 0
	}
	asked := answer.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(asked); err == nil {
		return time.Duration(min(max(seconds, 0), int(longestPause.Seconds()))) * time.Second
	}
	at, err := http.ParseTime(asked)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), longestPause)
}

func discard(answer *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10))
	_ = answer.Body.Close()
}

// bounded returns a body whose reads fail when it is larger than a document may be, or than what is
// left of a call.
func bounded(body io.ReadCloser, note *trace) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{&limitedReader{reader: body, most: note.most(), left: note.most(), note: note}, body}
}

type limitedReader struct {
	reader io.Reader
	most   int // in bytes
	left   int // of most; -1 after one byte more
	note   *trace
}

func (l *limitedReader) Read(into []byte) (int, error) {
	n, err := l.reader.Read(into[:min(len(into), l.left+1)])
	l.left -= n
	switch {
	case l.left < 0:
		return 0, fmt.Errorf("%w: it has more than %d bytes", errTooLarge, l.most)
	case !l.note.reads(n):
		return 0, errAnswers
	}
	return n, err
}

var errTooLarge = errors.New("the answer is too large")

var errAnswers = fmt.Errorf("the answers to one call are larger than %d bytes", maxAnswers)
