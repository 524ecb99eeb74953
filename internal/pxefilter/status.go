package pxefilter

import (
	"fmt"
	"io"
	"net/http"
	"sync"
)

// condition is the condition of a filter.
type condition string

const (
	starting condition = "starting"
	active   condition = "active"
	standby  condition = "standby"
	failing  condition = "failing"
)

// status is what health checks show. It is safe for concurrent use. The zero value is the status of
// a filter that is starting.
type status struct {
	mu        sync.Mutex
	condition condition
	err       error
}

// set sets the condition and reports whether it has changed.
func (s *status) set(c condition, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.condition != c
	s.condition, s.err = c, err
	return changed
}

// ServeHTTP answers 200 if this process keeps the folder synchronised, or stands by for a process
// that does. Otherwise it answers 503 with the reason.
func (s *status) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	c, err := s.condition, s.err
	s.mu.Unlock()
	text := string(c)
	switch {
	case err != nil:
		text = fmt.Sprintf("%s: %v", c, err)
	case c == "":
		text = string(starting)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if c != active && c != standby {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, text+"\n") // the client may be gone
}
