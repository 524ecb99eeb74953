package engine_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/engine"
)

// TestStopFinishesTheRequestThatRuns stops an engine in the middle of a body.
func TestStopFinishesTheRequestThatRuns(t *testing.T) {
	dir := t.TempDir()
	e := startIn(t, dir, func(c *engine.Config) { c.API.MetricsListen = "127.0.0.1:0" })
	const body = `{"driver":"fake-hardware","name":"late"}`
	connection := e.dial(t)
	fmt.Fprintf(connection, "POST /v1/nodes HTTP/1.1\r\nHost: localhost\r\nX-OpenStack-Ironic-API-Version: 1.11\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:10])
	eventually(t, "the request to run", func() bool {
		return strings.Contains(e.figures(t, nil).want(t, http.StatusOK).body, "ingot_api_requests_in_flight 1\n")
	})

	e.stopped = true // by this test
	e.client.CloseIdleConnections()
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		stopped <- e.Stop(ctx)
	}()
	eventually(t, "new connections to be refused", func() bool {
		other, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", e.address())
		if err == nil {
			other.Close()
		}
		return err != nil
	})
	select {
	case err := <-stopped:
		t.Fatalf("the engine stopped with a request half read: %v", err)
	default:
	}
	if _, err := io.WriteString(connection, body[10:]); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatalf("the request that ran got no answer: %v", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Errorf("got status %d, want 201", response.StatusCode)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
	startIn(t, dir, nil).node(t, "late")
}

// TestStopDoesNotWaitForeverForAClient holds a request that never ends.
func TestStopDoesNotWaitForeverForAClient(t *testing.T) {
	e := start(t, func(c *engine.Config) { c.API.MetricsListen = "127.0.0.1:0" })
	connection := e.dial(t)
	fmt.Fprint(connection, "POST /v1/nodes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	eventually(t, "the request to run", func() bool {
		return strings.Contains(e.figures(t, nil).want(t, http.StatusOK).body, "ingot_api_requests_in_flight 1\n")
	})
	e.stopped = true // by this test
	e.client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the stop may not wait
	if err := e.Stop(ctx); err == nil || !strings.Contains(err.Error(), "stop API server: context canceled") {
		t.Errorf("stop: got %v, want the part that was not waited for", err)
	}
	if _, err := io.ReadAll(connection); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection is still open: %v", err)
	}
}

// TestSlowClientsLeaveTheOtherPartsTimeToStop holds requests that never end, of the API and
// of the metrics.
func TestSlowClientsLeaveTheOtherPartsTimeToStop(t *testing.T) {
	t.Parallel() // it waits until the requests are cut off
	e := start(t, func(c *engine.Config) { c.API.MetricsListen = "127.0.0.1:0" })
	slow := e.dial(t)
	fmt.Fprint(slow, "POST /v1/continue_inspection HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	scrape := e.dialMetrics(t)
	fmt.Fprint(scrape, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
	eventually(t, "the request to run", func() bool {
		return strings.Contains(e.figures(t, nil).want(t, http.StatusOK).body, "ingot_api_requests_in_flight 1\n")
	})
	e.stopped = true // by this test
	e.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second) // as the command has
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	for what, connection := range map[string]net.Conn{"API": slow, "metrics": scrape} {
		if _, err := io.ReadAll(connection); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("the connection to the %s is still open: %v", what, err)
		}
	}
}

// TestFailedStartLeavesNothingRunning starts an engine on a database that cannot be
// opened, after its listeners were.
func TestFailedStartLeavesNothingRunning(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var api, metrics string
	_, err := tryStart(t, file, func(c *engine.Config) {
		api, metrics = freeAddress(t), freeAddress(t)
		c.API.Listen, c.API.MetricsListen = api, metrics
		c.Database.Dir, c.Database.URL = file, ""
	})
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Fatalf("got %v, want an error about the database in %s", err, file)
	}
	for _, address := range []string{api, metrics} {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Errorf("the engine that did not start still listens: %v", err)
			continue
		}
		listener.Close()
	}
}

// freeAddress is a loopback address that nobody listens on and that no connection
// begins at.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.77:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
