//go:build fault

package fault_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// writePoint is a write to the API server, and when the operator is killed there.
type writePoint struct {
	when string // "before" or "after" it is passed on
	name string
}

func (p writePoint) String() string { return fmt.Sprintf("%-6s %s", p.when, p.name) }

// kubeProxy passes the requests of an operator on to the API server. It names each write by
// what it does and by the state of the host, and kills the operator at some of them.
type kubeProxy struct {
	t         *testing.T
	kube      client.Client // to look at the host, past the proxy
	namespace string
	url       string
	transport http.RoundTripper
	// kill ends the operator, and returns when it has ended.
	kill func()

	mu     sync.Mutex
	names  []string // of all writes, in their order
	points []writePoint
	hit    []writePoint
}

// unnamed are resources whose writes do not change hosts.
var unnamed = []string{"events", "leases", "selfsubjectaccessreviews", "subjectaccessreviews", "tokenreviews"}

// startKubeProxy serves the API until the test ends.
func startKubeProxy(t *testing.T, config *rest.Config, kube client.Client, namespace string, points []writePoint) *kubeProxy {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &kubeProxy{t: t, kube: kube, namespace: namespace, transport: transport, points: slices.Clone(points)}
	pass := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,                                                 // watches
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) {}, // the operator was killed
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := p.name(r); name != "" {
			p.write(w, r, name, pass)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	// Watches last until the operator has ended.
	t.Cleanup(server.CloseClientConnections)
	p.url = server.URL
	return p
}

// write passes a write on, unless the operator is killed before that. After that, the operator
// does not hear of the answer.
func (p *kubeProxy) write(w http.ResponseWriter, r *http.Request, name string, pass http.Handler) {
	p.mu.Lock()
	p.names = append(p.names, name)
	p.mu.Unlock()
	if p.take(writePoint{"before", name}) {
		p.kill()
		panic(http.ErrAbortHandler)
	}
	answer := httptest.NewRecorder()
	pass.ServeHTTP(answer, r)
	if answer.Code < http.StatusMultipleChoices && p.take(writePoint{"after", name}) {
		p.kill()
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// take reports whether the operator is to be killed there, which it is once.
func (p *kubeProxy) take(here writePoint) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.points, here)
	if i < 0 {
		return false
	}
	p.points = slices.Delete(p.points, i, i+1)
	p.hit = append(p.hit, here)
	return true
}

// written are the names of all writes so far.
func (p *kubeProxy) written() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.names)
}

// name is what a request writes and in which state the host is; "" for one that writes nothing
// of interest.
func (p *kubeProxy) name(r *http.Request) string {
	verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}[r.Method]
	_, path, namespaced := strings.Cut(r.URL.Path, "/namespaces/"+p.namespace+"/")
	parts := strings.Split(path, "/") // resource, name, subresource
	if verb == "" || !namespaced || slices.Contains(unnamed, parts[0]) {
		return ""
	}
	what := verb + " " + parts[0]
	if len(parts) > 2 {
		what += "/" + parts[2]
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "" // the operator was killed while it wrote
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return strings.TrimSpace(fmt.Sprintf("%s, host %s%s", what, p.state(r), changesIn(verb, body)))
}

// state is the provisioning state of the host, which is alone in its namespace.
func (p *kubeProxy) state(r *http.Request) string {
	var hosts v1alpha1.BareMetalHostList
	if err := p.kube.List(r.Context(), &hosts, client.InNamespace(p.namespace)); err != nil || len(hosts.Items) == 0 {
		return "absent"
	}
	h := hosts.Items[0]
	if h.Status.Provisioning.State == "" {
		return "new"
	}
	return string(h.Status.Provisioning.State)
}

// changesIn says which of the things that lead on a patch writes.
func changesIn(verb string, body []byte) string {
	var patch struct {
		Status struct {
			Provisioning struct {
				State string  `json:"state"`
				ID    *string `json:"ID"`
			} `json:"provisioning"`
			Operation struct {
				Request  *string `json:"request"`
				Accepted *bool   `json:"accepted"`
			} `json:"operation"`
		} `json:"status"`
		Metadata map[string]json.RawMessage `json:"metadata"`
		Spec     map[string]json.RawMessage `json:"spec"`
	}
	if verb != "patch" || json.Unmarshal(body, &patch) != nil {
		return ""
	}
	delete(patch.Metadata, "resourceVersion")
	delete(patch.Metadata, "uid")
	var changes []string
	if s := patch.Status.Provisioning; s.State != "" {
		changes = append(changes, "becomes "+s.State)
	}
	if patch.Status.Provisioning.ID != nil {
		changes = append(changes, "gets a node")
	}
	if o := patch.Status.Operation; o.Request != nil && *o.Request != "" {
		changes = append(changes, "asks "+*o.Request)
	} else if o.Accepted != nil && *o.Accepted {
		changes = append(changes, "accepted")
	}
	for _, fields := range []map[string]json.RawMessage{patch.Metadata, patch.Spec} {
		changes = append(changes, slices.Sorted(maps.Keys(fields))...)
	}
	if len(changes) == 0 {
		return ""
	}
	return ": " + strings.Join(changes, ", ")
}
