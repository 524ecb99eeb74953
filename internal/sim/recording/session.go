package recording

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

// session is a client that has logged in.
type session struct {
	path   string
	number int
}

// maxSessions is how many sessions there can be at once. Nobody ends the sessions of clients that
// are gone, so a new session ends the oldest one.
const maxSessions = 16

// maxBody bounds the body of a request, in bytes.
const maxBody = 64 << 10

// decode reads the body of a request.
func decode(r *http.Request) (object, bool) {
	var body object
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	return body, err == nil && len(text) <= maxBody && json.Unmarshal(text, &body) == nil
}

func (s *Service) isAccount(user, password string) bool {
	sameUser := subtle.ConstantTimeCompare([]byte(user), []byte(s.user))
	return sameUser&subtle.ConstantTimeCompare([]byte(password), []byte(s.password)) == 1
}

// isKnown reports whether a request has a session or credentials.
func (s *Service) isKnown(r *http.Request) bool {
	if token := r.Header.Get("X-Auth-Token"); token != "" {
		_, ok := s.sessions[token]
		return ok
	}
	user, password, given := r.BasicAuth()
	return given && s.isAccount(user, password)
}

// logIn creates a session.
func (s *Service) logIn(r *http.Request) document {
	body, ok := decode(r)
	if !ok {
		return refusal(http.StatusBadRequest, "MalformedJSON", "The body of the request is no valid JSON.")
	}
	user, _ := body["UserName"].(string)
	password, _ := body["Password"].(string)
	if !s.isAccount(user, password) {
		return refusal(http.StatusUnauthorized, "NoValidSession", "The user name or the password is wrong.")
	}
	for token, one := range s.sessions {
		if one.number <= s.newest-maxSessions+1 {
			delete(s.sessions, token)
		}
	}
	s.newest++
	made := session{path: s.sessionsAt + "/" + strconv.Itoa(s.newest), number: s.newest}
	token := rand.Text()
	s.sessions[token] = made
	return document{
		Status: http.StatusCreated, Headers: map[string]string{"Location": made.path, "X-Auth-Token": token}, Body: made.document(user),
	}
}

func (x session) document(user string) object {
	return object{
		"@odata.id": x.path, "@odata.type": "#Session.v1_2_0.Session", "Id": strconv.Itoa(x.number), "Name": "User Session", "UserName": user,
	}
}

// sessionAnswer answers requests about existing sessions.
func (s *Service) sessionAnswer(method, path string) document {
	members := []any{}
	for token, one := range s.sessions {
		members = append(members, object{"@odata.id": one.path})
		switch {
		case one.path != path:
		case method == http.MethodDelete:
			delete(s.sessions, token)
			return document{Status: http.StatusNoContent}
		case method == http.MethodGet:
			return document{Status: http.StatusOK, Body: one.document(s.user)}
		}
	}
	if method == http.MethodGet && path == s.sessionsAt {
		return document{Status: http.StatusOK, Body: object{
			"@odata.id": path, "@odata.type": "#SessionCollection.SessionCollection", "Name": "Sessions", "Members": members, "Members@odata.count": len(members),
		}}
	}
	return refusal(http.StatusNotFound, "ResourceMissingAtURI", "There is no session at "+path+".")
}
