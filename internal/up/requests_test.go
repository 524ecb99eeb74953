package up

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/ingot-metal/ingot/internal/sim/loopbacktest"
)

// countingProxy passes requests on to the API server as its administrator, and counts the requests
// that read all hosts at once.
type countingProxy struct {
	server *httptest.Server
	lists  atomic.Int32
}

func newCountingProxy(t *testing.T) *countingProxy {
	t.Helper()
	config := plane.Config(t)
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &countingProxy{}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, // watches answer bit by bit
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/baremetalhosts") && r.URL.Query().Get("watch") == "" {
			p.lists.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(p.server.Close)
	return p
}

func (p *countingProxy) kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	config := api.Config{
		Clusters:       map[string]*api.Cluster{"counted": {Server: p.server.URL}},
		Contexts:       map[string]*api.Context{"counted": {Cluster: "counted"}},
		CurrentContext: "counted",
	}
	if err := clientcmd.WriteToFile(config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProgressIsShownWithoutReadingAllHostsAgainAndAgain(t *testing.T) {
	proxy := newCountingProxy(t)
	var output bytes.Buffer
	u := mustStart(t, Options{
		// The tests share an API server, so their machines need different MAC addresses: another
		// test has seed 21, and its machines with BMCs have seed 22.
		Machines: 3, Seed: 23, DataDir: t.TempDir(), Kubeconfig: proxy.kubeconfig(t),
		Listen: "127.0.0.1:0", Network: loopbacktest.Network(t), Output: &output,
	})
	before := proxy.lists.Load() // the operator fills its cache once, when it starts
	following, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := u.Follow(following); err != nil || following.Err() != nil {
		t.Fatalf("machines did not become available: %v, %v\n%s", err, following.Err(), output.String())
	}
	if !strings.Contains(output.String(), "3 of 3 machines are available hosts") {
		t.Errorf("the output does not show the end:\n%s", output.String())
	}
	if got := proxy.lists.Load(); got > max(before, 1) {
		t.Errorf("hosts were listed %d times until the operator's start and %d times until they were available", before, got)
	}
}
