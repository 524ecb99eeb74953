//go:build fault

package fault_test

import (
	"bytes"
	"context"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// kubeProxy passes requests on to an API server, with the credentials of its administrator. It kills the
// operator at some of the writes.
type kubeProxy struct {
	*httptest.Server
	*writes

	// name returns what a request writes; "" if it writes nothing of interest.
	name func(*http.Request) string
	// wrapWrite, if not nil, passes on a write of this name by calling pass, which reports whether the
	// API server has made the write. The context waiting ends when nobody waits for the answer any
	// more.
	wrapWrite func(waiting context.Context, name string, pass func() bool)
	pass      http.Handler
}

// newKubeProxy returns a proxy that does not serve yet.
func newKubeProxy(t *testing.T, config *rest.Config, w *writes, name func(*http.Request) string) *kubeProxy {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &kubeProxy{writes: w, name: name, pass: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { // the operator was killed
			w.WriteHeader(http.StatusBadGateway)
		},
	}}
	p.Server = httptest.NewUnstartedServer(p)
	p.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that were cut
	// Watches last until the operator has ended.
	t.Cleanup(p.CloseClientConnections)
	return p
}

// ServeHTTP passes a request on.
func (p *kubeProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if name := p.name(r); name != "" {
		p.write(w, r, name)
		return
	}
	p.pass.ServeHTTP(w, r)
}

// write passes on a write, unless the operator is killed before that. An operator that is killed
// after it does not get the answer. A write that was passed on is made even if the operator dies
// for another reason meanwhile.
func (p *kubeProxy) write(w http.ResponseWriter, r *http.Request, name string) {
	p.add(name)
	if p.take(writePoint{"before", name}) {
		p.kill()
		panic(http.ErrAbortHandler)
	}
	answer, waiting := httptest.NewRecorder(), r.Context()
	r = r.WithContext(context.WithoutCancel(waiting))
	pass := func() bool {
		p.pass.ServeHTTP(answer, r)
		return answer.Code < http.StatusMultipleChoices
	}
	if p.wrapWrite == nil {
		pass()
	} else {
		p.wrapWrite(waiting, name, pass)
	}
	if answer.Code < http.StatusMultipleChoices && waiting.Err() == nil && p.take(writePoint{"after", name}) {
		p.kill()
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// verbs has the verbs of requests that write.
var verbs = map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}

// unnamed are resources whose writes change neither hosts nor machines.
var unnamed = []string{"events", "leases", "selfsubjectaccessreviews", "subjectaccessreviews", "tokenreviews"}

// asked is a write that a request asks for.
type asked struct {
	verb     string
	resource string // with its subresource
	body     []byte
}

// askedOf returns the write that a request asks for, of an object whose path follows the prefix. It
// returns false if there is none.
func askedOf(r *http.Request, prefix string) (a asked, is bool) {
	_, path, below := strings.Cut(r.URL.Path, prefix)
	parts := strings.Split(path, "/") // resource, name, subresource
	if verbs[r.Method] == "" || !below || slices.Contains(unnamed, parts[0]) {
		return asked{}, false
	}
	a = asked{verb: verbs[r.Method], resource: parts[0]}
	if len(parts) > 2 {
		a.resource += "/" + parts[2]
	}
	var err error
	if a.body, err = io.ReadAll(r.Body); err != nil {
		return asked{}, false // the operator was killed while it wrote
	}
	r.Body = io.NopCloser(bytes.NewReader(a.body))
	return a, true
}
