package redfish

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// session is a client that has logged in.
type session struct {
	number int64
	token  string
	user   string
	used   time.Time
}

func (x session) id() string { return strconv.FormatInt(x.number, 10) }

// sessions are the sessions of one BMC. Its systems share them.
type sessions struct {
	mu       sync.Mutex
	all      []session
	newest   int64 // number of the newest session
	restarts int64 // restarts of the BMC when tidy was last called
}

// tidy drops the sessions that have ended. The caller holds the lock.
func (s *sessions) tidy(now time.Time, restarts int64) {
	if restarts != s.restarts {
		s.all, s.restarts = nil, restarts
	}
	s.all = slices.DeleteFunc(s.all, func(x session) bool { return now.Sub(x.used) >= SessionTimeout })
}

// authenticate returns the user of a request, found by a token or by name and password.
func (s *Service) authenticate(r *http.Request) (user string, ok bool) {
	restarts, now := s.group.restarts(), s.bmc.Now()
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	s.sessions.tidy(now, restarts)
	if token := r.Header.Get("X-Auth-Token"); token != "" {
		for i, x := range s.sessions.all {
			if subtle.ConstantTimeCompare([]byte(x.token), []byte(token)) == 1 {
				s.sessions.all[i].used = now
				return x.user, true
			}
		}
		return "", false
	}
	user, password, given := r.BasicAuth()
	return user, given && s.isAccount(user, password)
}

func (s *Service) isAccount(user, password string) bool {
	c := s.bmc.Config()
	sameUser := subtle.ConstantTimeCompare([]byte(user), []byte(c.User))
	return sameUser&subtle.ConstantTimeCompare([]byte(password), []byte(c.Password)) == 1
}

// unauthorized answers a client that has not authenticated. Any such request counts as a reading.
func (s *Service) unauthorized(*request) answer {
	return s.problem(problem{http.StatusUnauthorized, s.shape.unauthorized}, "", "")
}

// createSession logs a client in. It counts as a reading.
func (s *Service) createSession(q *request) answer {
	s.bmc.Read(q.call)
	if !q.call.Fate.Spared() {
		return answer{}
	}
	user, okUser := q.body.text("UserName")
	password, okPassword := q.body.text("Password")
	if !okUser || !okPassword || user == "" {
		return s.problem(problem{http.StatusBadRequest, "PropertyMissing"}, "UserName", "")
	}
	if !s.isAccount(user, password) {
		return s.problem(problem{http.StatusUnauthorized, s.shape.unauthorized}, "", "")
	}
	restarts, now := s.group.restarts(), s.bmc.Now()
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	s.sessions.tidy(now, restarts)
	if len(s.sessions.all) >= MaxSessions {
		return s.problem(s.shape.tooManySessions, "", "")
	}
	s.sessions.newest++
	x := session{number: s.sessions.newest, token: rand.Text(), user: user, used: now}
	s.sessions.all = append(s.sessions.all, x)
	document := s.sessionDocument(x)
	return answer{status: http.StatusCreated, location: document["@odata.id"].(string), token: x.token, body: document}
}

// deleteSession logs a client out. It counts as a reading.
func (s *Service) deleteSession(q *request) answer {
	s.bmc.Read(q.call)
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	i := slices.IndexFunc(s.sessions.all, func(x session) bool { return x.id() == q.PathValue("session") })
	switch {
	case i < 0:
		return s.missing(q.Request)
	case !q.call.Fate.Spared():
		return answer{}
	}
	s.sessions.all = slices.Delete(s.sessions.all, i, i+1)
	return s.shape.done()
}

func (s *Service) sessionService(*request) answer {
	return resource(s.shape.document("/SessionService", "SessionService.v1_1_8.SessionService", object{
		"Id": "SessionService", "Name": "Session Service", "ServiceEnabled": true,
		"SessionTimeout": int(SessionTimeout / time.Second), "Sessions": s.shape.link("/SessionService/Sessions"),
	}))
}

func (s *Service) listSessions(*request) answer {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	paths := make([]string, len(s.sessions.all))
	for i, x := range s.sessions.all {
		paths[i] = "/SessionService/Sessions/" + x.id()
	}
	return resource(s.shape.collection("/SessionService/Sessions", "SessionCollection.SessionCollection", "Session Collection", paths))
}

func (s *Service) showSession(q *request) answer {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	for _, x := range s.sessions.all {
		if x.id() == q.PathValue("session") {
			return resource(s.sessionDocument(x))
		}
	}
	return s.missing(q.Request)
}

func (s *Service) sessionDocument(x session) object {
	return s.shape.document("/SessionService/Sessions/"+x.id(), "Session.v1_2_0.Session", object{
		"Id": x.id(), "Name": "User Session", "UserName": x.user,
	})
}
