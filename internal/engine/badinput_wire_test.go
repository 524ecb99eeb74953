package engine_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestBadRequestsOnTheWire sends what no HTTP client would.
func TestBadRequestsOnTheWire(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	uuid := e.create(t, `{"driver":"fake-hardware","name":"a"}`)
	get := func(target string, lines ...string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-OpenStack-Ironic-API-Version: latest\r\n" + strings.Join(append(lines, "", ""), "\r\n")
	}
	post := func(body string, lines ...string) string {
		return "POST /v1/nodes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-OpenStack-Ironic-API-Version: latest\r\n" + strings.Join(append(lines, "", ""), "\r\n") + body
	}
	node := `{"driver":"fake-hardware"}`
	tests := []struct {
		name, request string
		status        int
	}{
		{"no HTTP", "hello\r\n\r\n", 400},
		{"no host", "GET /v1/nodes HTTP/1.1\r\nConnection: close\r\n\r\n", 400},
		{"host with markup", strings.Replace(get("/v1"), "Host: localhost", `Host: "><script>`, 1), 400},
		{"header without a colon", get("/v1/nodes", "X-Broken"), 400},
		{"header with a zero byte", get("/v1/nodes", "X-A: a\x00b"), 400},
		{"header name with a space", get("/v1/nodes", "X A: b"), 400},
		{"header of 70 kB", get("/v1/nodes", "X-A: "+strings.Repeat("a", 70<<10)), 431},
		{"3,000 headers", get("/v1/nodes", strings.Repeat("X-A: "+strings.Repeat("a", 50)+"\r\n", 3000)+"X-B: c"), 431},
		{"query of 70 kB", get("/v1/nodes?" + strings.Repeat("a", 70<<10)), 431},
		{"path with parent folders", get("/v1/nodes/../../etc/passwd"), 404},
		{"path above the root", get("/../../../etc/passwd"), 404},
		{"path with escaped parent folders", get("/v1/nodes/%2e%2e/%2e%2e/healthcheck"), 404},
		{"path with a bad escape", get("/v1/nodes/%zz"), 400},
		{"path with a backslash", get(`/v1/nodes/..\..\etc`), 400},
		{"path with a line end", get("/v1/nodes/a%0d%0aX-Injected:%201"), 400},
		{"length below zero", post(node, "Content-Length: -5"), 400},
		{"length a word", post(node, "Content-Length: many"), 400},
		{"two lengths", post(node, "Content-Length: 26", "Content-Length: 27"), 400},
		{"length beyond numbers", post(node, "Content-Length: 99999999999999999999"), 400},
		{"length over the limit", post(node, "Content-Length: 9000000000"), 413},
		{"config drive over its limit", announced("PUT", "/v1/nodes/a/states/provision", 65<<20), 413},
		{"inspection data over its limit", announced("POST", "/v1/continue_inspection", 17<<20), 413},
		{"config drive over the limit of others", announced("PUT", "/v1/nodes/a/states/provision", 2<<20), 400},
		{"unknown encoding", post(node, "Transfer-Encoding: gzip"), 501},
		{"chunk that is none", post("zz\r\n", "Transfer-Encoding: chunked"), 400},
		{"chunks that stop", post("1a\r\n"+node[:5], "Transfer-Encoding: chunked"), 400},
		{"half a body", post(node[:5], fmt.Sprintf("Content-Length: %d", len(node))), 400},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := e.rows(t)
			connection := e.dial(t)
			go func() {
				_, _ = io.WriteString(connection, test.request) // the engine may close before all is sent
				if half, ok := connection.(*net.TCPConn); ok {
					_ = half.CloseWrite()
				}
			}()
			answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
			if err != nil {
				t.Fatalf("read answer: %v", err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != test.status {
				body, _ := io.ReadAll(answer.Body)
				t.Errorf("got %s, want %d: %s", answer.Status, test.status, cut(string(body)))
			}
			if answer.Header.Get("X-Injected") != "" {
				t.Error("a header was injected")
			}
			if after := e.rows(t); after != before {
				t.Errorf("something was written:\n%s\n%s", before, after)
			}
		})
	}
	e.node(t, uuid)
}

// announced is a request with a body of that many bytes, of which few come.
func announced(method, path string, size int) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-OpenStack-Ironic-API-Version: latest\r\nContent-Length: %d\r\n\r\n{", method, path, size)
}

// TestUncleanPathsReachTheirResource sends paths that clients build by joining
// strings carelessly.
func TestUncleanPathsReachTheirResource(t *testing.T) {
	e := start(t, nil)
	uuid := e.create(t, `{"driver":"fake-hardware"}`)
	for _, path := range []string{"/v1/nodes/" + uuid, "//v1//nodes/" + uuid, "/v1/nodes/" + uuid + "/", "/nodes/" + uuid, "/v1/./nodes/" + uuid, "/v1/ports/../nodes/" + uuid, "/v1/nodes/" + strings.ToUpper(uuid)} {
		text := e.exchange(t, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(text, "HTTP/1.1 200 ") || !strings.Contains(text, uuid) {
			t.Errorf("%s: got %s", path, cut(text))
		}
	}
}

// TestEngineServesWhileHundredsOfRequestsAreHalfSent keeps connections open that
// send nothing or next to nothing.
func TestEngineServesWhileHundredsOfRequestsAreHalfSent(t *testing.T) {
	e := start(t, nil)
	halves := []string{
		"", "G", "GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
		"POST /v1/continue_inspection HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n{\"inventory\"",
		"POST /v1/continue_inspection HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
	}
	const clients = 300
	for i := range clients {
		if _, err := io.WriteString(e.dial(t), halves[i%len(halves)]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		e.awaitNode(t, e.post(t, machine(fmt.Sprintf("52:54:00:00:00:%02x", i))), inspected)
	}
}

// TestRequestThatNeverEndsItsHeadersIsCutOff waits for the engine's own limit.
func TestRequestThatNeverEndsItsHeadersIsCutOff(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	connection := e.dial(t)
	if _, err := io.WriteString(connection, "GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\nX-Slow: a"); err != nil {
		t.Fatal(err)
	}
	// The limit is 10 s; a client that sends a byte now and then does not move it.
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, connection)
		close(closed)
	}()
	for range 30 {
		select {
		case <-closed:
			return
		case <-tick.C:
			_, _ = io.WriteString(connection, "a")
		}
	}
	t.Error("the engine still waits for the end of the headers after 30 s")
}
