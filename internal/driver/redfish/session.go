package redfish

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/stmcginnis/gofish/schemas"
)

// session is a login of the engine at a BMC. The library would keep a client for each session, and
// read the service root once more for it.
type session struct {
	token string // empty means that there is no session
	path  string // of its resource
}

// links are the links of the service root that the library keeps to itself.
type links struct {
	Systems, Registries, SessionService schemas.Link
	Links                               struct{ Sessions schemas.Link }
}

// grantsNone reports whether the service root names neither sessions nor a service for them. A
// BMC without them may answer a login with 401, as it does any request without credentials.
func (l links) grantsNone() bool { return l.SessionService == "" && l.Links.Sessions == "" }

// defaultSessions is the path of the sessions in DSP0266, for a BMC that has no link to them.
const defaultSessions = "/redfish/v1/SessionService/Sessions"

// maxLogin bounds the answer to a login, in bytes.
const maxLogin = 64 << 10

// logIn makes a session (DSP0266, session login). The trace of the call that needs the session does
// not count it as a change, because a session changes no machine.
func (b *bmc) logIn(ctx context.Context) (session, error) {
	credentials, err := json.Marshal(map[string]string{"UserName": b.access.username, "Password": b.access.password})
	if err != nil {
		return session{}, err
	}
	path := cmp.Or(pathOf(b.serviceLinks().Links.Sessions.String()), defaultSessions)
	answer, err := b.plainly(ctx, http.MethodPost, path, "", credentials)
	if err != nil {
		return session{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxLogin))
	if err != nil {
		return session{}, err
	}
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusCreated {
		return session{}, schemas.ConstructError(answer.StatusCode, text)
	}
	made := session{token: answer.Header.Get(tokenHeader), path: answer.Header.Get("Location")}
	if made.token == "" {
		return session{}, &schemas.Error{HTTPReturnedStatusCode: http.StatusNotImplemented, Message: "the BMC made a session without a token"}
	}
	if made.path == "" { // the resource itself must be in the answer then
		var body struct {
			ID string `json:"@odata.id"`
		}
		if json.Unmarshal(text, &body) == nil {
			made.path = body.ID
		}
	}
	made.path = pathOf(made.path)
	return made, nil
}

const tokenHeader = "X-Auth-Token" //nolint:gosec // the name of a header

// plainly sends a request with a token, or with no credentials when that is empty.
func (b *bmc) plainly(ctx context.Context, method, path, token string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, b.access.endpoint+path, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the BMC has a link that is no path")
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		request.Header.Set(tokenHeader, token)
	}
	client := http.Client{Transport: plain{b}, CheckRedirect: b.checkRedirect}
	return client.Do(request)
}

// plain is the transport of requests that the driver makes without the library.
type plain struct{ bmc *bmc }

func (p plain) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := p.bmc.checkServer(r); err != nil {
		return nil, err
	}
	answer, err := p.bmc.carry(r)
	if err == nil {
		answer.Body = bounded(answer.Body, traceOf(r.Context()))
	}
	return answer, err
}

// restore goes back to an earlier session, or to none with the zero value, and ends the present
// session. A BMC that answers 401 with every session has not ended the earlier one. If the new ones
// were kept, it would soon have no more to grant.
func (b *bmc) restore(ctx context.Context, earlier session) {
	if present := b.swap(earlier); present != earlier {
		b.end(ctx, present)
	}
}

// swap replaces the present session by another one, and returns it.
func (b *bmc) swap(other session) session {
	b.mu.Lock()
	defer b.mu.Unlock()
	present := b.session
	b.session = other
	return present
}

// end gives a session back, within a bound of time. A BMC that does not answer ends it by itself
// later.
func (b *bmc) end(ctx context.Context, s session) {
	if s.path == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logoutTimeout)
	defer cancel()
	if answer, err := b.plainly(ctx, http.MethodDelete, s.path, s.token, nil); err == nil {
		discard(answer)
	}
}

// noteLinks keeps the links of the service root, which an answer holds, and returns the
// answer for the library to read.
func (b *bmc) noteLinks(answer *http.Response) (*http.Response, error) {
	text, err := textOf(answer)
	if err != nil {
		return nil, err
	}
	var found links
	if json.Unmarshal(text, &found) == nil {
		b.mu.Lock()
		b.links = found
		b.mu.Unlock()
	}
	return answer, nil
}

// textOf reads the body of an answer, and leaves the body to be read once more.
func textOf(answer *http.Response) ([]byte, error) {
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	answer.Body = io.NopCloser(bytes.NewReader(text))
	return text, err
}

func (b *bmc) serviceLinks() links {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.links
}
