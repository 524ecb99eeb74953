// Package recording serves what a Redfish BMC once showed, so that clients can be tested against
// BMCs that nobody has at hand. `ingot bmc test --record` makes such recordings; their format is in
// docs/bmc-test.md.
//
// Documents are answered as they were recorded. Three things can be changed: sessions, the power of
// systems that had a reset action, and the boot override of systems. All other changes are answered
// with 501.
package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
)

// format is the only format of recordings.
const format = "ingot-bmc-recording/1"

// maxFile is the largest recording, in bytes. Recordings are indented, so they are larger than
// their documents.
const maxFile = 64 << 20

// object is a JSON object.
type object = map[string]any

// document is the recorded answer to a GET.
type document struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    any               `json:"body"`
}

// Service serves a recording. It is safe for concurrent use.
type Service struct {
	user, password string

	mu        sync.Mutex
	documents map[string]document // by path, without a slash at the end
	systems   []*system
	sessions  map[string]session // by token
	newest    int                // number of the newest session

	sessionsAt string // path of the sessions
}

// root is the path of the service root.
const root = "/redfish/v1"

// Load reads a recording from a file. Only the account with this user and password may log in.
func Load(file, user, password string) (*Service, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the recording: %w", err)
	}
	defer f.Close()
	s, err := New(f, user, password)
	if err != nil {
		return nil, fmt.Errorf("read the recording %s: %w", file, err)
	}
	return s, nil
}

// New reads a recording. Only the account with this user and password may log in.
func New(from io.Reader, user, password string) (*Service, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("it has more than %d MiB", maxFile>>20)
	}
	var recorded struct {
		Format    string
		Documents map[string]document
	}
	if err := json.Unmarshal(text, &recorded); err != nil {
		return nil, fmt.Errorf("it is not the JSON of a recording: %w", err)
	}
	if recorded.Format != format {
		return nil, fmt.Errorf("its format is %q, want %q", recorded.Format, format)
	}
	s := &Service{user: user, password: password, documents: map[string]document{}, sessions: map[string]session{}}
	for path, d := range recorded.Documents {
		if d.Status < 200 || d.Status > 599 {
			return nil, fmt.Errorf("%s has the status %d", path, d.Status)
		}
		s.documents[bare(path)] = d
	}
	if _, ok := s.documents[root]; !ok {
		return nil, errors.New("it has no service root")
	}
	s.sessionsAt = s.findSessions()
	s.systems = s.findSystems()
	return s, nil
}

// bare returns a path without the slash at its end, which some services write. A query stays.
func bare(path string) string {
	path, query, found := strings.Cut(path, "?")
	path = strings.TrimRight(path, "/")
	if found {
		path += "?" + query
	}
	return path
}

// body returns the object at a path, or nil.
func (s *Service) body(path string) object {
	found, _ := s.documents[bare(path)].Body.(object)
	return found
}

// linkOf returns the path in a property that is a link.
func linkOf(value any) string {
	link, _ := value.(object)
	path, _ := link["@odata.id"].(string)
	return bare(path)
}

// linksOf returns the paths in a property that is a list of links.
func linksOf(value any) []string {
	list, _ := value.([]any)
	var all []string
	for _, one := range list {
		if path := linkOf(one); path != "" {
			all = append(all, path)
		}
	}
	return all
}

// findSessions returns the path at which sessions are created (DSP0266, session login).
func (s *Service) findSessions() string {
	if links, ok := s.body(root)["Links"].(object); ok {
		if path := linkOf(links["Sessions"]); path != "" {
			return path
		}
	}
	return root + "/SessionService/Sessions"
}

// findSystems returns the recorded systems.
func (s *Service) findSystems() []*system {
	var all []*system
	for _, path := range slices.Sorted(maps.Keys(s.documents)) {
		kind, _ := s.body(path)["@odata.type"].(string)
		if strings.HasPrefix(kind, "#ComputerSystem.") {
			all = append(all, s.newSystem(path))
		}
	}
	return all
}

// ServeHTTP answers a request.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, text := s.encoded(r)
	for name, value := range out.Headers {
		w.Header().Set(name, value)
	}
	w.Header().Set("OData-Version", "4.0")
	if out.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="RedfishService"`)
	}
	if out.Body != nil {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	}
	w.WriteHeader(out.Status)
	_, _ = w.Write(text) // the client may be gone
}

// encoded returns the answer to a request. It encodes the body under the lock, because other
// requests change the body later.
func (s *Service) encoded(r *http.Request) (out document, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if out = s.answer(r); out.Body != nil {
		text, _ = json.Marshal(out.Body) // cannot fail: it was JSON before
	}
	return out, text
}

// answer returns the answer to a request. The caller holds the lock.
func (s *Service) answer(r *http.Request) document {
	path := bare(r.URL.Path)
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case reads && path == "/redfish":
		return document{Status: http.StatusOK, Body: object{"v1": root + "/"}}
	case r.Method == http.MethodPost && path == s.sessionsAt:
		return s.logIn(r)
	case (!reads || path != root) && !s.isKnown(r):
		return refusal(http.StatusUnauthorized, "NoValidSession", "There is no valid session for this request.")
	case strings.HasPrefix(path, s.sessionsAt+"/") || path == s.sessionsAt:
		return s.sessionAnswer(r.Method, path)
	case !reads:
		return s.change(r, path)
	}
	return s.show(r.URL.RequestURI())
}

// show answers with a recorded document.
func (s *Service) show(uri string) document {
	path, _, _ := strings.Cut(uri, "?")
	for _, key := range []string{bare(uri), bare(path)} {
		if found, ok := s.documents[key]; ok {
			return found
		}
	}
	return refusal(http.StatusNotFound, "ResourceMissingAtURI", "The recording has nothing at "+path+".")
}

// refusal returns an error answer (DSP0266, error responses).
func refusal(status int, message, text string) document {
	return document{Status: status, Body: object{"error": object{
		"code": "Base.1.12." + message, "message": text,
		"@Message.ExtendedInfo": []any{object{"MessageId": "Base.1.12." + message, "Message": text, "Severity": "Warning"}},
	}}}
}

// change answers a request that changes something.
func (s *Service) change(r *http.Request, path string) document {
	for _, one := range s.systems {
		switch {
		case r.Method == http.MethodPost && path == one.resetAt && one.resetAt != "":
			return s.reset(r, one)
		case r.Method == http.MethodPatch && path == one.path && one.boots():
			return s.override(r, one)
		}
	}
	return refusal(http.StatusNotImplemented, "OperationNotAllowed", "This is a recording: of changes there are only sessions, resets of systems and boot overrides.")
}
