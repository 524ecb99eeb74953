// Package redfish serves simulated BMCs (package bmc) over Redfish, in the shapes of three vendors:
// Dell iDRAC9, HPE iLO 5 and Supermicro X12. One table per vendor has what differs between them.
//
// Each request makes its documents from the model and the hardware of the machine. A service keeps
// nothing but its sessions.
package redfish

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// SessionTimeout is how long a session lives without a request.
const SessionTimeout = 30 * time.Minute

// MaxSessions is how many sessions a BMC has at the same time.
const MaxSessions = 8

// Vendors are the names of the vendors that have shapes.
var Vendors = []string{"dell", "hpe", "supermicro"}

var shapes = map[string]*shape{"dell": &dell, "hpe": &hpe, "supermicro": &supermicro}

// Profile returns how the BMCs of a vendor behave, or nil if there is no such vendor.
func Profile(vendor string) *bmc.Profile {
	s, ok := shapes[vendor]
	if !ok {
		return nil
	}
	return s.profile
}

// Service is the Redfish service of one BMC. It is safe for concurrent use.
type Service struct {
	bmc      *bmc.BMC
	shape    *shape
	group    *Group
	sessions *sessions // of the group
}

// New returns the service of a BMC with one system. The BMC must have a profile that [Profile]
// returns.
func New(b *bmc.BMC) *Group { return NewGroup([]*bmc.BMC{b}) }

// request is a request with what its handler needs.
type request struct {
	*http.Request
	call *bmc.Call
	body object // of a POST or PATCH
}

type serviceKey struct{}

// ServeHTTP answers a request. The path must not end with a slash.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mux := s.shape.mux()
	if _, pattern := mux.Handler(r); pattern == "" {
		s.unrouted(r, mux).write(s, w, r)
		return
	}
	mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serviceKey{}, s)))
}

// unrouted answers a request for which there is no route.
func (s *Service) unrouted(r *http.Request, mux *http.ServeMux) answer {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "" {
			return s.problem(problem{http.StatusMethodNotAllowed, "OperationNotAllowed"}, "", "")
		}
	}
	return s.missing(r)
}

func (s *Service) missing(r *http.Request) answer {
	return s.problem(problem{http.StatusNotFound, "ResourceMissingAtURI"}, r.URL.Path, "")
}

// handler answers requests to one resource.
type handler struct {
	answer func(s *Service, r *request) answer
	public bool // needs no authentication
	reads  bool // changes nothing, even if the method is not GET
}

// ServeHTTP authenticates the client, makes the answer, and applies the faults that the call meets.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := r.Context().Value(serviceKey{}).(*Service)
	user, ok := s.authenticate(r)
	if !ok && !h.public {
		h = handler{answer: (*Service).unauthorized, reads: true}
	}
	q := &request{Request: r, call: &bmc.Call{User: user, Client: clientAddress(r), Request: r.Header.Get("X-Request-Id")}}
	out := s.respond(h, q)
	if !s.bmc.Answers(r.Context(), q.call) {
		panic(http.ErrAbortHandler)
	}
	out.write(s, w, r)
}

// respond returns the answer.
func (s *Service) respond(h handler, q *request) answer {
	if q.Method == http.MethodGet || q.Method == http.MethodHead || h.reads {
		s.bmc.Read(q.call)
	} else if refused := s.decode(q); refused != nil {
		return *refused
	}
	out := answer{}
	if q.call.Fate.Spared() {
		out = h.answer(s, q)
	}
	switch fate := q.call.Fate; {
	case fate.Refuse && q.call.Reads:
		return s.problem(problem{http.StatusServiceUnavailable, "ServiceTemporarilyUnavailable"}, "30", "")
	case fate.Refuse:
		return s.problem(problem{http.StatusConflict, "ResourceInUse"}, "", "")
	case fate.Error:
		return s.problem(problem{http.StatusInternalServerError, "InternalError"}, "", "")
	}
	return out
}

// clientAddress returns the address of the client without the port.
func clientAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
