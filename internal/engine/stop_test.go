package engine_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/engine"
)

// TestStopFinishesTheRequestThatRuns stops an engine in the middle of a body.
func TestStopFinishesTheRequestThatRuns(t *testing.T) {
	dir := t.TempDir()
	e := startIn(t, dir, func(c *engine.Config) { c.API.MetricsListen = "127.0.0.1:0" })
	const body = `{"driver":"fake-hardware","name":"late"}`
	connection := e.dial(t)
	fmt.Fprintf(connection, "POST /v1/nodes HTTP/1.1\r\nHost: x\r\nX-OpenStack-Ironic-API-Version: 1.11\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:10])
	eventually(t, "the request to run", func() bool {
		return strings.Contains(e.figures(t, nil).want(t, http.StatusOK).body, "ingot_api_requests_in_flight 1\n")
	})

	e.stopped = true // by this test
	e.client.CloseIdleConnections()
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
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
	fmt.Fprint(connection, "POST /v1/nodes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	eventually(t, "the request to run", func() bool {
		return strings.Contains(e.figures(t, nil).want(t, http.StatusOK).body, "ingot_api_requests_in_flight 1\n")
	})
	e.stopped = true // by this test
	e.client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // patience is at its end
	_ = e.Stop(ctx)
	if _, err := io.ReadAll(connection); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection is still open: %v", err)
	}
}
