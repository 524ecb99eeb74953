package operator

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
)

// reviewer is an API server that answers questions about callers of metrics.
type reviewer struct {
	answer func(path string) (status int, body any)

	mu    sync.Mutex
	asked []string // paths
	sent  []byte   // the last body
}

func (r *reviewer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	r.asked, r.sent = append(r.asked, req.URL.Path), body
	r.mu.Unlock()
	status, answer := r.answer(req.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

// guarded returns the handler of metrics behind the filter that asks r.
func guarded(t *testing.T, r *reviewer) http.Handler {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	filter, err := onlyAuthorized(config, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "figures") }))
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

func get(handler http.Handler, authorization string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, req)
	return recorder
}

// known is the answer about a token that is valid.
func known() authenticationv1.TokenReview {
	return authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
		Username: "collector", UID: "1", Groups: []string{"all"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"p"}},
	}}}
}

func TestOnlyRequestsWithATokenReachTheAPIServer(t *testing.T) {
	r := &reviewer{answer: func(string) (int, any) { return http.StatusCreated, authenticationv1.TokenReview{} }}
	handler := guarded(t, r)
	for _, authorization := range []string{"", "Bearer", "Bearer  ", "Basic bWlsaw=="} {
		if got := get(handler, authorization); got.Code != http.StatusUnauthorized {
			t.Errorf("%q: answer %d, want 401", authorization, got.Code)
		}
	}
	if len(r.asked) > 0 {
		t.Errorf("the API server was asked %v", r.asked)
	}
}

func TestTheAPIServerIsAskedForTheWholeUser(t *testing.T) {
	r := &reviewer{answer: func(path string) (int, any) {
		if strings.HasSuffix(path, "/tokenreviews") {
			return http.StatusCreated, known()
		}
		return http.StatusCreated, authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}
	}}
	if got := get(guarded(t, r), "bearer milk"); got.Code != http.StatusOK || got.Body.String() != "figures" {
		t.Errorf("answer %d: %s", got.Code, got.Body)
	}
	var sent authorizationv1.SubjectAccessReview
	if err := json.Unmarshal(r.sent, &sent); err != nil {
		t.Fatal(err)
	}
	s := sent.Spec
	if s.User != "collector" || s.UID != "1" || len(s.Groups) != 1 || len(s.Extra["pod"]) != 1 || s.ResourceAttributes != nil ||
		s.NonResourceAttributes == nil || s.NonResourceAttributes.Path != "/metrics" || s.NonResourceAttributes.Verb != "get" {
		t.Errorf("asked about %+v, %+v", s, s.NonResourceAttributes)
	}
}

func TestMetricsAreRefusedWhenTheAPIServerFails(t *testing.T) {
	for _, failing := range []string{"/tokenreviews", "/subjectaccessreviews"} {
		r := &reviewer{answer: func(path string) (int, any) {
			if strings.HasSuffix(path, failing) {
				return http.StatusForbidden, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "secret reason"}
			}
			return http.StatusCreated, known()
		}}
		if got := get(guarded(t, r), "Bearer milk"); got.Code != http.StatusInternalServerError || strings.Contains(got.Body.String(), "secret") {
			t.Errorf("%s fails: answer %d: %s", failing, got.Code, got.Body)
		}
	}
}

func TestCallersThatWaitAreBounded(t *testing.T) {
	arrived, release := make(chan struct{}, reviewSlots), make(chan struct{})
	r := &reviewer{answer: func(string) (int, any) {
		arrived <- struct{}{}
		<-release
		return http.StatusCreated, authenticationv1.TokenReview{}
	}}
	handler := guarded(t, r)
	var waiting sync.WaitGroup
	for range reviewSlots {
		waiting.Go(func() {
			if got := get(handler, "Bearer milk"); got.Code != http.StatusUnauthorized {
				t.Errorf("answer %d, want 401", got.Code)
			}
		})
	}
	for range reviewSlots {
		<-arrived
	}
	if got := get(handler, "Bearer milk"); got.Code != http.StatusServiceUnavailable {
		t.Errorf("beside %d others: answer %d, want 503", reviewSlots, got.Code)
	}
	close(release)
	waiting.Wait()
}
