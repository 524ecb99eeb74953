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
	"time"

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
	proofs []proof
}

// proof is a time in which the host had a confirmed record that its machine is off. It begins
// when that was certainly stored, and ends when it may have been removed.
type proof struct{ from, to time.Time }

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

// forgetDelay is how long the API server takes to forget that a machine is off. An operator that
// asks for its power before that is done has it on by then.
const forgetDelay = 2 * time.Second

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
	if strings.Contains(name, forgetsHold) {
		select {
		case <-time.After(forgetDelay):
		case <-r.Context().Done():
		}
	}
	answer, began := httptest.NewRecorder(), time.Now()
	pass.ServeHTTP(answer, r)
	if answer.Code < http.StatusMultipleChoices {
		p.prove(name, began)
		if p.take(writePoint{"after", name}) {
			p.kill()
			panic(http.ErrAbortHandler)
		}
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// prove notes what a write that began then says about holds.
func (p *kubeProxy) prove(name string, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	open := len(p.proofs) > 0 && p.proofs[len(p.proofs)-1].to.IsZero()
	switch confirms := strings.Contains(name, confirmsHold); {
	case confirms && !open:
		p.proofs = append(p.proofs, proof{from: time.Now()})
	case !confirms && open && (strings.Contains(name, recordsHold) || strings.Contains(name, forgetsHold)):
		p.proofs[len(p.proofs)-1].to = began
	}
}

// confirmed are the times in which a confirmed record was stored, until now.
func (p *kubeProxy) confirmed(now time.Time) []proof {
	p.mu.Lock()
	defer p.mu.Unlock()
	proofs := slices.Clone(p.proofs)
	if last := len(proofs) - 1; last >= 0 && proofs[last].to.IsZero() {
		proofs[last].to = now
	}
	return proofs
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

// What writes do with the records of holds, as their names have it.
const (
	recordsHold  = "records a hold"
	confirmsHold = "confirms a hold"
	forgetsHold  = "forgets the holds"
)

// asking is a record of a request in a patch.
type asking struct {
	Request  *string `json:"request"`
	Accepted *bool   `json:"accepted"`
}

// changesIn says which of the things that lead on a patch writes.
func changesIn(verb string, body []byte) string {
	var patch struct {
		Status struct {
			Provisioning struct {
				State string  `json:"state"`
				ID    *string `json:"ID"`
			} `json:"provisioning"`
			Operation     asking          `json:"operation"`
			Updates       json.RawMessage `json:"updates"`
			PowerOffHolds json.RawMessage `json:"powerOffHolds"`
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
	changes = append(changes, patch.Status.Operation.change("")...)
	changes = append(changes, updatesIn(patch.Status.Updates)...)
	switch holds := string(patch.Status.PowerOffHolds); {
	case holds == "":
	case holds == "null":
		changes = append(changes, forgetsHold)
	case strings.Contains(holds, `"confirmedAt"`):
		changes = append(changes, confirmsHold)
	default:
		changes = append(changes, recordsHold)
	}
	for _, fields := range []map[string]json.RawMessage{patch.Metadata, patch.Spec} {
		changes = append(changes, slices.Sorted(maps.Keys(fields))...)
	}
	if len(changes) == 0 {
		return ""
	}
	return ": " + strings.Join(changes, ", ")
}

// change says what is asked for, or that it was accepted.
func (a asking) change(by string) []string {
	switch {
	case a.Request != nil && *a.Request != "":
		return []string{by + "asks " + *a.Request}
	case a.Accepted != nil && *a.Accepted:
		return []string{by + "accepted"}
	default:
		return nil
	}
}

// updatesIn says what a patch writes about settings and firmware: in a host that of several kinds,
// in HostFirmwareComponents the list of those that have begun.
func updatesIn(written json.RawMessage) (changes []string) {
	var updates struct {
		Settings, Components struct{ Requested, Applied *int64 }
		Service              asking
	}
	if len(written) == 0 || json.Unmarshal(written, &updates) != nil {
		return nil
	}
	for _, o := range []struct {
		name string
		is   *int64
	}{
		{"settings requested", updates.Settings.Requested},
		{"settings applied", updates.Settings.Applied},
		{"firmware requested", updates.Components.Requested},
		{"firmware applied", updates.Components.Applied},
	} {
		if o.is != nil {
			changes = append(changes, o.name)
		}
	}
	return append(changes, updates.Service.change("live update: ")...)
}
