package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/node"
)

// testTime is the time in every test.
var testTime = time.Date(2031, 3, 4, 10, 11, 12, 0, time.UTC)

// fakeEngine keeps everything in memory and keeps the requests that it got.
type fakeEngine struct {
	// Tests of these use the real engine, see newEngineServer.
	Collections
	NodeParts
	Suspensions

	mu          sync.Mutex
	nodes       []*node.Node
	ports       []*node.Port
	inspections map[string]*node.InspectionData
	conductors  []node.Conductor
	answer      *node.LookupAnswer

	err        error // what every call returns when set
	query      node.Query
	lookups    []node.LookupRequest
	beats      []node.Heartbeat
	refused    []node.RefusalReason
	documents  []string
	wantsToken []bool // of each posted document
	sources    []netip.Addr
	verbs      []string
	requests   []node.VerbRequest

	cutNodesAfter int // after how many nodes a page is cut; 0 for never
	powerTimeout  time.Duration
	machine       fakeMachine
}

func (f *fakeEngine) Node(_ context.Context, ident string) (*node.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find(ident)
	if err != nil {
		return nil, err
	}
	found := *n
	return &found, nil
}

func (f *fakeEngine) find(ident string) (*node.Node, error) {
	if f.err != nil {
		return nil, f.err
	}
	for _, n := range f.nodes {
		if n.UUID == ident || n.Name == ident {
			return n, nil
		}
	}
	return nil, &node.NotFoundError{Kind: "Node", Ident: ident}
}

func (f *fakeEngine) Nodes(_ context.Context, q node.Query) ([]*node.Node, error) {
	f.query = q
	if f.err != nil {
		return nil, f.err
	}
	nodes, err := pageOf(f.nodes, q, func(n *node.Node) string { return n.UUID })
	if f.cutNodesAfter > 0 && len(nodes) > f.cutNodesAfter {
		return nodes[:f.cutNodesAfter], node.ErrPageCut
	}
	return nodes, err
}

// pageOf returns the items after the marker, in the order of creation.
func pageOf[T any](items []*T, q node.Query, uuid func(*T) string) ([]*T, error) {
	if q.Marker != "" {
		i := slices.IndexFunc(items, func(item *T) bool { return uuid(item) == q.Marker })
		if i < 0 {
			return nil, &node.NotFoundError{Kind: "Marker", Ident: q.Marker}
		}
		items = items[i+1:]
	}
	if q.Limit > 0 && len(items) > q.Limit {
		items = items[:q.Limit]
	}
	return items, nil
}

func (f *fakeEngine) Inspection(_ context.Context, ident string) (*node.InspectionData, error) {
	n, err := f.find(ident)
	if err != nil {
		return nil, err
	}
	if data := f.inspections[n.UUID]; data != nil {
		return data, nil
	}
	return nil, &node.NotFoundError{Kind: "Inventory of node", Ident: ident}
}

func (f *fakeEngine) CreateNode(_ context.Context, n *node.Node) (*node.Node, error) {
	if f.err != nil {
		return nil, f.err
	}
	created := *n
	created.UUID = cmp.Or(n.UUID, uuid.NewString())
	for _, other := range f.nodes {
		if other.UUID == created.UUID || n.Name != "" && other.Name == n.Name {
			return nil, node.Conflict("A node with this UUID or name exists.")
		}
	}
	created.CreatedAt = testTime
	f.nodes = append(f.nodes, &created)
	return &created, nil
}

func (f *fakeEngine) UpdateNode(_ context.Context, ident string, change func(*node.Node) error) (*node.Node, error) {
	n, err := f.find(ident)
	if err != nil {
		return nil, err
	}
	if n.Lease.InForce(testTime) {
		return nil, &node.LockedError{Node: n.UUID, Holder: n.Lease.Holder}
	}
	var changed node.Node
	for range 2 { // change may run more than once
		changed = *n
		if err := change(&changed); err != nil {
			return nil, err
		}
	}
	*n = changed
	return &changed, nil
}

func (f *fakeEngine) DeleteNode(_ context.Context, ident string) error {
	n, err := f.find(ident)
	if err == nil {
		f.nodes = slices.DeleteFunc(f.nodes, func(other *node.Node) bool { return other == n })
	}
	return err
}

func (f *fakeEngine) Provision(_ context.Context, ident string, request node.VerbRequest) error {
	n, err := f.find(ident)
	if err != nil {
		return err
	}
	if _, _, err := n.Move(request.Verb.On); err != nil {
		return err
	}
	f.verbs, f.requests = append(f.verbs, request.Verb.Name), append(f.requests, request)
	return nil
}

func (f *fakeEngine) SetPower(_ context.Context, ident string, target node.PowerState, timeout time.Duration) error {
	n, err := f.find(ident)
	if err == nil {
		n.TargetPowerState = target
		f.powerTimeout = timeout
	}
	return err
}

func (f *fakeEngine) SetMaintenance(_ context.Context, ident string, on bool, reason string) error {
	n, err := f.find(ident)
	if err == nil {
		n.Maintenance, n.MaintenanceReason = on, reason
	}
	return err
}

func (f *fakeEngine) Ports(_ context.Context, q node.Query) ([]*node.Port, error) {
	f.query = q
	if f.err != nil {
		return nil, f.err
	}
	return pageOf(f.ports, q, func(p *node.Port) string { return p.UUID })
}

func (f *fakeEngine) Port(_ context.Context, uuid string) (*node.Port, error) {
	for _, p := range f.ports {
		if p.UUID == uuid {
			return p, nil
		}
	}
	return nil, &node.NotFoundError{Kind: "Port", Ident: uuid}
}

func (f *fakeEngine) CreatePort(_ context.Context, p *node.Port) (*node.Port, error) {
	if _, err := f.find(p.NodeUUID); err != nil {
		return nil, node.Invalid("Node %s could not be found.", p.NodeUUID)
	}
	created := *p
	created.UUID = cmp.Or(p.UUID, uuid.NewString())
	f.ports = append(f.ports, &created)
	return &created, nil
}

func (f *fakeEngine) UpdatePort(ctx context.Context, uuid string, change func(*node.Port, *node.Node) error) (*node.Port, error) {
	p, err := f.Port(ctx, uuid)
	if err != nil {
		return nil, err
	}
	n, err := f.find(p.NodeUUID)
	if err != nil {
		return nil, err
	}
	changed := *p
	if err := change(&changed, n); err != nil {
		return nil, err
	}
	if _, err := f.find(changed.NodeUUID); err != nil {
		return nil, node.Invalid("The port cannot move to another node: there is no node %s.", changed.NodeUUID)
	}
	*p = changed
	return &changed, nil
}

func (f *fakeEngine) DeletePort(ctx context.Context, uuid string) error {
	p, err := f.Port(ctx, uuid)
	if err == nil {
		f.ports = slices.DeleteFunc(f.ports, func(other *node.Port) bool { return other == p })
	}
	return err
}

func (f *fakeEngine) AwaitsRamdisk(_ context.Context, uuid string) (bool, error) {
	n, err := f.find(uuid)
	return err == nil && n.ProvisionState.Class() == node.Waiting, err
}

func (f *fakeEngine) Lookup(_ context.Context, request node.LookupRequest) (*node.LookupAnswer, error) {
	f.lookups = append(f.lookups, request)
	if f.err != nil {
		return nil, f.err
	}
	return f.answer, nil
}

func (f *fakeEngine) Heartbeat(_ context.Context, ident string, beat node.Heartbeat) error {
	if _, err := f.find(ident); err != nil {
		return err
	}
	f.beats = append(f.beats, beat)
	return nil
}

func (f *fakeEngine) HeartbeatRefused(_ context.Context, _ string, reason node.RefusalReason, _ string) {
	f.refused = append(f.refused, reason)
}

func (f *fakeEngine) ContinueInspection(_ context.Context, post node.InspectionPost) (*node.LookupAnswer, error) {
	f.documents = append(f.documents, post.NodeUUID+string(post.Body))
	f.wantsToken = append(f.wantsToken, post.WantsToken)
	f.sources = append(f.sources, post.Source)
	if f.err != nil {
		return nil, f.err
	}
	return f.answer, nil
}

func (f *fakeEngine) Conductors(context.Context) ([]node.Conductor, error) {
	return f.conductors, f.err
}

func (f *fakeEngine) Ready(context.Context) error { return f.err }

// UUIDs that tests use.
const (
	uuid1 = "0a6d3c0e-5a52-4b0e-9f0a-5a2f6c4f4b11"
	uuid2 = "7b9c1d0e-1111-4222-8333-444455556666"
	uuid3 = "c2d0b7f4-9a55-4f6b-8a61-0d2a3b4c5d6e"
)

// server is the real API over a fake engine.
type server struct {
	tb      testing.TB
	engine  *fakeEngine
	handler http.Handler
}

func newServer(tb testing.TB, change ...func(*Options)) *server {
	tb.Helper()
	drivers, err := builtin.New(driver.Config{}, builtin.Dependencies{})
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	options := Options{
		Drivers: drivers, Now: func() time.Time { return testTime },
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&options)
	}
	engine := &fakeEngine{
		inspections: map[string]*node.InspectionData{},
		conductors:  []node.Conductor{{Hostname: "ingot-1", Alive: true, Drivers: drivers.Names(), UpdatedAt: testTime}},
	}
	return &server{tb: tb, engine: engine, handler: New(engine, options)}
}

// addNode stores a node after applying change to it.
func (s *server) addNode(uuid string, change ...func(*node.Node)) *node.Node {
	n := &node.Node{UUID: uuid, Driver: "fake-hardware", ProvisionState: node.Enroll, CreatedAt: testTime}
	for _, c := range change {
		c(n)
	}
	s.engine.nodes = append(s.engine.nodes, n)
	return n
}

// reply is the answer to one request.
type reply struct {
	tb     testing.TB
	what   string
	status int
	header http.Header
	body   string
}

// do sends a request with a microversion. "" means no version header.
func (s *server) do(method, path, version, body string) reply {
	s.tb.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if version != "" {
		r.Header.Set("X-OpenStack-Ironic-API-Version", version)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return s.send(r)
}

func (s *server) send(r *http.Request) reply {
	s.tb.Helper()
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		s.tb.Fatalf("read answer: %v", err)
	}
	return reply{
		tb: s.tb, what: fmt.Sprintf("%s %s", r.Method, r.URL), status: w.Code, header: w.Result().Header, body: string(body),
	}
}

func (s *server) get(path string) reply {
	s.tb.Helper()
	return s.do("GET", path, "latest", "")
}

// want fails the test unless the answer has this status.
func (a reply) want(status int) reply {
	a.tb.Helper()
	if a.status != status {
		a.tb.Fatalf("%s: got %d %s, want %d", a.what, a.status, a.body, status)
	}
	return a
}

// json decodes the answer.
func (a reply) json() map[string]any {
	a.tb.Helper()
	var document map[string]any
	if err := json.Unmarshal([]byte(a.body), &document); err != nil {
		a.tb.Fatalf("%s: %v in %q", a.what, err, a.body)
	}
	return document
}

// fault decodes the JSON text inside the JSON string of an error.
func (a reply) fault() map[string]any {
	a.tb.Helper()
	text, ok := a.json()["error_message"].(string)
	if !ok {
		a.tb.Fatalf("%s: error_message is no string in %q", a.what, a.body)
	}
	var inner map[string]any
	if err := json.Unmarshal([]byte(text), &inner); err != nil {
		a.tb.Fatalf("%s: %v in %q", a.what, err, text)
	}
	return inner
}

var errInternal = errors.New("secret detail of the database")

// wantFault fails the test unless the fault string has these parts in this order.
func (a reply) wantFault(parts ...string) reply {
	a.tb.Helper()
	text, _ := a.fault()["faultstring"].(string)
	rest := text
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			a.tb.Fatalf("%s: got fault %q, want one with %q", a.what, text, parts)
		}
		rest = after
	}
	return a
}
