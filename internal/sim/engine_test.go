package sim_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// standIn is a minimal engine for simulated machines: it enrols all of them.
type standIn struct {
	*httptest.Server
	mu         sync.Mutex
	nodes      map[string]*node // by MAC address
	byUUID     map[string]*node
	documents  map[string]string // the document that each node's machine posted last
	heartbeats int
	down       atomic.Bool // answer 503 to everything
	hideNodes  atomic.Bool // answer lookups as if nobody were known
	hideTokens atomic.Bool // answer lookups as if the token were given away
}

type node struct {
	uuid     string
	lookups  int
	callback string
}

func newStandIn(t testing.TB) *standIn {
	t.Helper()
	s := &standIn{nodes: map[string]*node{}, byUUID: map[string]*node{}, documents: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"default_version":{"version":"1.95"}}`)
	})
	mux.HandleFunc("POST /v1/continue_inspection", s.inspect)
	mux.HandleFunc("GET /v1/lookup", s.lookup)
	mux.HandleFunc("POST /v1/heartbeat/{uuid}", s.heartbeat)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *standIn) inspect(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var document struct {
		Inventory struct {
			Interfaces []struct {
				MACAddress string `json:"mac_address"`
			} `json:"interfaces"`
		} `json:"inventory"`
	}
	if err != nil || json.Unmarshal(body, &document) != nil || len(document.Inventory.Interfaces) == 0 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[document.Inventory.Interfaces[0].MACAddress]
	if n == nil {
		n = &node{uuid: fmt.Sprintf("00000000-0000-4000-8000-%012d", len(s.byUUID))}
		s.byUUID[n.uuid] = n
		for _, nic := range document.Inventory.Interfaces {
			s.nodes[nic.MACAddress] = n
		}
	}
	s.documents[n.uuid] = string(body)
	_, _ = fmt.Fprintf(w, `{"uuid":%q}`, n.uuid)
}

func (s *standIn) lookup(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[strings.Split(r.URL.Query().Get("addresses"), ",")[0]]
	if s.hideNodes.Load() || n == nil || n.uuid != r.URL.Query().Get("node_uuid") {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	n.lookups++
	token := strings.Repeat("t", 40)
	if s.hideTokens.Load() {
		token = "******"
	}
	_, _ = fmt.Fprintf(w, `{"node":{"uuid":%q},"config":{"heartbeat_timeout":3,"agent_token":%q,"agent_token_required":true}}`, n.uuid, token)
}

func (s *standIn) heartbeat(w http.ResponseWriter, r *http.Request) {
	var body struct {
		CallbackURL string `json:"callback_url"`
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.byUUID[r.PathValue("uuid")]
	if n == nil || json.NewDecoder(r.Body).Decode(&body) != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	n.callback = body.CallbackURL
	s.heartbeats++
	w.WriteHeader(http.StatusAccepted)
}

// callbacks are the addresses that agents announced.
func (s *standIn) callbacks() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	urls := map[string]bool{}
	for _, n := range s.byUUID {
		if n.callback != "" {
			urls[n.callback] = true
		}
	}
	return urls
}
