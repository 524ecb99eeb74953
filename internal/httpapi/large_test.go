package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/ingot-metal/ingot/internal/node"
)

// stalled is a client that reads nothing of its answer until it is released.
type stalled struct {
	*httptest.ResponseRecorder
	release chan struct{}
}

func (s stalled) Write(p []byte) (int, error) {
	<-s.release
	return s.ResponseRecorder.Write(p)
}

type userKey struct{}

// byUser takes the user of a request from a header.
func byUser(o *Options) {
	o.Middleware = func(next http.Handler, _ bool) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, r.Header.Get("X-Test-User"))))
		})
	}
	o.User = func(ctx context.Context) string {
		user, _ := ctx.Value(userKey{}).(string)
		return user
	}
}

// noAllocations is the list of allocations of an engine without any.
type noAllocations struct {
	node.Collection[node.Allocation]
}

func (noAllocations) List(context.Context, node.Query) ([]*node.Allocation, error) { return nil, nil }

func (*fakeEngine) Allocations() node.Collection[node.Allocation] { return noAllocations{} }

func TestAnswersThatNobodyReadsLeaveMemoryToOthers(t *testing.T) {
	for flooded, flood := range map[string]string{"lists": "/v1/nodes/detail", "allocations": "/v1/allocations", "large nodes": "/v1/nodes/" + uuid2} {
		t.Run(flooded, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { floodUnread(t, flood) })
		})
	}
}

// floodUnread has a client ask for one path again and again without reading what it gets.
func floodUnread(t *testing.T, path string) {
	t.Helper()
	s := newServer(t, byUser)
	s.addNode(uuid1)
	const large = "/v1/nodes/" + uuid2
	s.addNode(uuid2).InstanceInfo = node.Object(`{"configdrive":"` + strings.Repeat("x", maxBody) + `"}`)
	s.engine.inspections[uuid1] = &node.InspectionData{}
	request := func(path, user string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("X-Test-User", user)
		r.Header.Set("X-OpenStack-Ironic-API-Version", "latest")
		return r
	}
	release := make(chan struct{})
	var flood sync.WaitGroup
	for range largeAnswers / 2 {
		flood.Go(func() {
			s.handler.ServeHTTP(stalled{httptest.NewRecorder(), release}, request(path, "flood"))
		})
		synctest.Wait() // the fake engine takes one request at a time
	}
	for path, status := range map[string]int{
		"/v1/nodes/detail": 503, "/v1/ports?detail=true": 503, oneNode + "/inventory": 503, "/v1/allocations": 503, large: 503,
		"/v1/nodes": 200, "/v1/ports": 200, oneNode: 200, large + "?fields=name": 200,
	} {
		s.send(request(path, "flood")).want(status)
	}
	s.send(request("/v1/nodes/detail", "ann")).want(200)
	s.send(request(large, "ann")).want(200)
	close(release)
	flood.Wait()
	s.send(request("/v1/nodes/detail", "flood")).want(200)
	s.send(request(large, "flood")).want(200)
}

func TestAnswersToPatchesThatNobodyReadsLeaveMemoryToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, byUser)
		s.addNode(uuid1)
		n := s.addNode(uuid2, func(n *node.Node) {
			n.InstanceInfo = node.Object(`{"configdrive":"` + strings.Repeat("x", maxBody) + `"}`)
		})
		request := func(uuid, user, description string) *http.Request {
			patch := `[{"op":"add","path":"/description","value":"` + description + `"}]`
			r := httptest.NewRequest(http.MethodPatch, "/v1/nodes/"+uuid, strings.NewReader(patch))
			r.Header.Set("X-Test-User", user)
			r.Header.Set("X-OpenStack-Ironic-API-Version", "latest")
			return r
		}
		release := make(chan struct{})
		var flood sync.WaitGroup
		for range largeAnswers / 2 {
			flood.Go(func() {
				s.handler.ServeHTTP(stalled{httptest.NewRecorder(), release}, request(uuid2, "flood", "first"))
			})
			synctest.Wait() // the fake engine takes one request at a time
		}
		s.send(request(uuid2, "flood", "refused")).want(503)
		if n.Description != "first" {
			t.Errorf("description %q, want that a refused patch changes nothing", n.Description)
		}
		s.send(request(uuid1, "flood", "small")).want(200)
		s.send(request(uuid2, "ann", "hers")).want(200)
		close(release)
		flood.Wait()
		s.send(request(uuid2, "flood", "later")).want(200)
	})
}

func TestLargeBodiesThatArriveSlowlyLeaveMemoryToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, byUser)
		n := s.addNode(uuid1)
		request := func(user string, body io.Reader, length int64) *http.Request {
			n.ProvisionState = node.Enroll
			r := httptest.NewRequest(http.MethodPut, oneNode+"/states/provision", body)
			r.ContentLength = length
			r.Header.Set("X-Test-User", user)
			r.Header.Set("X-OpenStack-Ironic-API-Version", "latest")
			return r
		}
		const manage = `{"target":"manage"}`
		slow, end := io.Pipe()
		var flood sync.WaitGroup
		for range largeBodies / 2 {
			r := request("flood", slow, maxBody+1)
			flood.Go(func() { s.handler.ServeHTTP(httptest.NewRecorder(), r) })
		}
		synctest.Wait()
		s.send(request("flood", strings.NewReader(manage), maxBody+1)).want(503)
		s.send(request("flood", strings.NewReader(manage), -1)).want(503)
		s.send(request("flood", strings.NewReader(manage), int64(len(manage)))).want(202)
		s.send(request("ann", strings.NewReader(manage), -1)).want(202)
		end.Close()
		flood.Wait()
		s.send(request("flood", strings.NewReader(manage), -1)).want(202)
	})
}
