package ironic

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"
)

// retrying is a client of an engine that gives these answers to DELETE, the
// last one for ever, and counts them.
func retrying(t *testing.T, retries int, answers ...int) (*Client, *int) {
	t.Helper()
	asked := 0
	endpoint := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, answers[min(asked, len(answers)-1)], map[string]any{"error_message": `{"faultstring": "no"}`})
		asked++
	}))
	client, err := New(Options{Endpoint: endpoint, Microversion: "1.84", Retries: retries, RetryInterval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return client, &asked
}

func TestRequestIsMadeAgainAsOftenAsAllowedWhileItIsRefusedForNow(t *testing.T) {
	for name, test := range map[string]struct {
		retries int
		answers []int
		asked   int
		kind    error
	}{
		"node becomes free":  {5, []int{409, 503, 204}, 3, nil},
		"node stays busy":    {2, []int{409}, 3, ErrConflict},
		"nobody asked to":    {0, []int{409, 204}, 1, ErrConflict},
		"request is wrong":   {5, []int{400, 204}, 1, ErrRejected},
		"engine is at fault": {5, []int{500, 204}, 1, ErrServer},
	} {
		t.Run(name, func(t *testing.T) {
			client, asked := retrying(t, test.retries, test.answers...)
			err := client.DeleteNode(t.Context(), "n1")
			if !errors.Is(err, test.kind) || *asked != test.asked {
				t.Errorf("%v after %d requests, want %v after %d", err, *asked, test.kind, test.asked)
			}
		})
	}
}

func TestEngineThatIsNotThereYetIsAskedAgain(t *testing.T) {
	client, err := New(Options{Endpoint: "http://127.0.0.1:1", Retries: 2, RetryInterval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	client.base.HTTPClient.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		tries++
		return http.DefaultTransport.RoundTrip(r)
	})
	if err := client.DeleteNode(t.Context(), "n1"); !errors.Is(err, ErrUnreachable) || tries != 3 {
		t.Errorf("%v after %d tries, want 3", err, tries)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWaitingForAnotherTryEndsWithTheCallersContext(t *testing.T) {
	client, _ := retrying(t, 5, 409)
	client.interval = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := client.DeleteNode(ctx, "n1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
