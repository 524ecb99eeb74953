package fake_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
)

// failureAt wipes the machine at an address and returns how that failed.
func failureAt(ctx context.Context, t *testing.T, url string) *node.DriverError {
	t.Helper()
	machine, ok := fake.Remote()(fakeNode(map[string]any{"fake_machine": url + "/machines/m1"}))
	if !ok {
		t.Fatal("the node has no machine")
	}
	_, err := machine.Do(ctx, fake.Effect{Kind: fake.Wipe, Origin: driver.Origin{Request: "r"}})
	var failure *node.DriverError
	if !errors.As(err, &failure) {
		t.Fatalf("error = %v, want a DriverError", err)
	}
	return failure
}

func TestOnlyWhatCannotHaveArrivedCountsAsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		status             int
		body               string
		refused, retryable bool
	}{
		"busy":                {http.StatusConflict, `{"error":"busy"}`, true, true},
		"too many requests":   {http.StatusTooManyRequests, "", true, true},
		"no such machine":     {http.StatusNotFound, "", true, false},
		"broken machine":      {http.StatusInternalServerError, "", false, true},
		"gateway gave up":     {http.StatusGatewayTimeout, "", false, true},
		"redirection":         {http.StatusFound, "", false, true},
		"answer is no JSON":   {http.StatusOK, "done", false, true},
		"answer has no state": {http.StatusOK, `{"id":"t"}`, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			}))
			defer server.Close()
			if got := failureAt(t.Context(), t, server.URL); got.Refused != tt.refused || got.Retryable != tt.retryable {
				t.Errorf("%v: refused %v, retryable %v; want %v, %v", got, got.Refused, got.Retryable, tt.refused, tt.retryable)
			}
		})
	}
}

func TestMachineThatNobodyServesRefuses(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	if got := failureAt(t.Context(), t, server.URL); !got.Refused || !got.Retryable {
		t.Errorf("%v: refused %v, retryable %v; want both", got, got.Refused, got.Retryable)
	}
}

func TestAnswerThatNeverComesLeavesTheOutcomeOpen(t *testing.T) {
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(asked)
		<-r.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		<-asked
		cancel()
	}()
	if got := failureAt(ctx, t, server.URL); got.Refused || !got.Retryable {
		t.Errorf("%v: refused %v, retryable %v; want retryable alone", got, got.Refused, got.Retryable)
	}
}

func TestAddressOfTheMachineIsChecked(t *testing.T) {
	for _, value := range []any{"m1", "ftp://127.0.0.1/m1", "http://", 7, true} {
		err := fake.Hardware{}.Validate(fakeNode(map[string]any{"fake_machine": value}))
		var invalid *node.ValidationError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "fake_machine") {
			t.Errorf("%v: %v, want a ValidationError that names the key", value, err)
		}
	}
	if err := (fake.Hardware{}).Validate(fakeNode(map[string]any{"fake_machine": "http://127.0.0.1:8099/machines/m1"})); err != nil {
		t.Error(err)
	}
}

func TestNodeWithoutAnAddressHasNoMachine(t *testing.T) {
	if _, ok := fake.Remote()(fakeNode(nil)); ok {
		t.Error("a node without fake_machine has a machine")
	}
}
