package driver_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
)

// sleeping is a context whose deadline is over and whose timer has not noticed, as in a
// process that was stopped and goes on.
type sleeping struct{ context.Context } //nolint:containedctx // it is one

func (sleeping) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

func TestNothingIsSentToAMachineAfterTheDeadline(t *testing.T) {
	t.Run("over HTTP", func(t *testing.T) {
		nothingAfterTheDeadline(t, httptest.NewServer, driver.TransportOptions{})
	})
	t.Run("over TLS", func(t *testing.T) {
		nothingAfterTheDeadline(t, httptest.NewTLSServer, driver.TransportOptions{TLS: &tls.Config{InsecureSkipVerify: true}})
	})
}

func nothingAfterTheDeadline(t *testing.T, start func(http.Handler) *httptest.Server, o driver.TransportOptions) {
	t.Helper()
	var arrived atomic.Int64
	machine := start(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
	defer machine.Close()
	client := &http.Client{Transport: driver.NewTransport(o)}
	send := func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, machine.URL, strings.NewReader("wipe"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	if err := send(sleeping{t.Context()}); err == nil || arrived.Load() != 0 {
		t.Errorf("on a new connection: %v, %d requests arrived, want none", err, arrived.Load())
	}
	inTime, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := send(inTime); err != nil || arrived.Load() != 1 {
		t.Errorf("in time: %v, %d requests arrived, want one", err, arrived.Load())
	}
	if err := send(sleeping{t.Context()}); !errors.Is(err, os.ErrDeadlineExceeded) || arrived.Load() != 1 {
		t.Errorf("on a connection that was there: %v, %d requests arrived, want no other one", err, arrived.Load())
	}
	if err := send(t.Context()); err != nil || arrived.Load() != 2 {
		t.Errorf("without a deadline: %v, %d requests arrived, want another one", err, arrived.Load())
	}
}
