package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

// discard is a response writer that discards the answer.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

func benchServer(b *testing.B, nodes int) *server {
	b.Helper()
	s := newServer(b)
	for i := range nodes {
		s.addNode(fmt.Sprintf("00000000-0000-4000-8000-%012d", i), func(n *node.Node) {
			n.DriverInternalInfo = node.ObjectOf(map[string]any{
				"agent_url": "https://192.0.2.101:9999", "agent_version": "9.11.0", "agent_secret_token": secretToken,
				"agent_last_heartbeat": "2031-03-04T10:11:12Z",
			})
			n.Properties = node.ObjectOf(map[string]any{"cpu_arch": "x86_64", "local_gb": 893})
			n.AutoDiscovered = true
		})
	}
	return s
}

func benchRequest(b *testing.B, s *server, path string) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequestWithContext(b.Context(), "GET", path, nil)
		r.Header.Set("X-Openstack-Ironic-Api-Version", "1.84")
		s.handler.ServeHTTP(&discard{header: http.Header{}}, r)
	}
}

func BenchmarkShowNode(b *testing.B) {
	benchRequest(b, benchServer(b, 1), "/v1/nodes/00000000-0000-4000-8000-000000000000")
}

func BenchmarkListThousandNodesInDetail(b *testing.B) {
	benchRequest(b, benchServer(b, 1000), "/v1/nodes/detail")
}

func BenchmarkListThousandNodes(b *testing.B) {
	benchRequest(b, benchServer(b, 1000), "/v1/nodes")
}
