package ironic

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestFaultTextFindsTheSentenceInEveryErrorForm(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"text in error_message":   {`{"error_message": "{\"faultcode\": \"Client\", \"faultstring\": \"Node n1 is locked.\", \"debuginfo\": null}"}`, "Node n1 is locked."},
		"object in error_message": {`{"error_message": {"faultstring": "Node n1 is locked."}}`, "Node n1 is locked."},
		"plain error_message":     {`{"error_message": "Node n1 is locked."}`, "Node n1 is locked."},
		"bare fault":              {`{"faultcode": "Client", "faultstring": "too large"}`, "too large"},
		"router with description": {`{"error_message": "{\"code\": 404, \"title\": \"Not Found\", \"description\": \"no route\"}"}`, "no route"},
		"router with title":       {`{"error_message": "{\"code\": 404, \"title\": \"Not Found\"}"}`, "Not Found"},
		"basic authentication":    {`{"error": {"message": "Authorization required", "code": 401}}`, "Authorization required"},
		"list of errors":          {`{"errors": [{"title": "bad", "description": "worse"}]}`, "worse"},
		"plain text":              {"upstream timed out\n", "upstream timed out"},
		"HTML of a proxy":         {"<html><body>nginx</body></html>", "Conflict"},
		"nothing":                 {"", "Conflict"},
		"unknown object":          {`{"a": 1}`, "Conflict"},
		"nested without end":      {strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100), "Conflict"},
		"control characters":      {`{"faultstring": "a\u001b[31mb\nc"}`, "a [31mb c"},
		"credentials":             {`{"faultstring": "read http://me:secret@bmc/x"}`, "read http://******@bmc/x"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := faultText([]byte(test.body), http.StatusConflict); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func FuzzFaultTextIsOneBoundedLine(f *testing.F) {
	f.Add([]byte(`{"error_message": "{\"faultstring\": \"locked\"}"}`))
	f.Add([]byte("\x1b[2J"))
	f.Fuzz(func(t *testing.T, body []byte) {
		got := faultText(body, http.StatusConflict)
		if len(got) > maxText+len("…") || strings.ContainsFunc(got, unicode.IsControl) || !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
	})
}

func TestLongFaultIsCutAtARune(t *testing.T) {
	got := cleanText(strings.Repeat("é", maxText))
	if len(got) > maxText+len("…") || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes ending in %q", len(got), got[len(got)-6:])
	}
}

func TestStatusDecidesTheKindOfError(t *testing.T) {
	kinds := []error{ErrNotFound, ErrConflict, ErrOverloaded, ErrUnreachable, ErrRejected, ErrDenied, ErrServer, ErrProtocol}
	for status, test := range map[int]struct {
		kind      error
		retryable bool
	}{
		400: {ErrRejected, false}, 401: {ErrDenied, false}, 403: {ErrDenied, false}, 404: {ErrNotFound, false},
		406: {ErrRejected, false}, 409: {ErrConflict, true}, 413: {ErrRejected, false}, 429: {ErrOverloaded, true},
		500: {ErrServer, true}, 502: {ErrServer, true}, 503: {ErrOverloaded, true},
	} {
		_, client := newFakeEngine(t, func(f *fakeEngine) {
			f.override = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/v1/" {
					return false
				}
				w.Header().Set("Retry-After", "7")
				reply(w, status, map[string]any{"faultstring": "because"})
				return true
			}
		})
		_, err := client.Node(t.Context(), "n1")
		for _, kind := range kinds {
			if errors.Is(err, kind) != errors.Is(test.kind, kind) {
				t.Errorf("%d: errors.Is(%v, %v) = %v", status, err, kind, errors.Is(err, kind))
			}
		}
		var e *Error
		if !errors.As(err, &e) || e.Message != "because" || e.Status != status || e.RetryAfter != 7*time.Second {
			t.Errorf("%d: got %+v", status, e)
		}
		if Retryable(err) != test.retryable {
			t.Errorf("%d: Retryable = %v", status, !test.retryable)
		}
		if want := "show node n1: " + test.kind.Error() + ": because"; err.Error() != want {
			t.Errorf("%d: %q, want %q", status, err, want)
		}
	}
}

func TestOnlyTheAPISaysThatAnObjectDoesNotExist(t *testing.T) {
	for name, test := range map[string]struct {
		header, body string
		want         error
	}{
		"fault of Ironic":                  {"", `{"error_message": {"faultcode": "Client", "faultstring": "Node n1 could not be found."}}`, ErrNotFound},
		"fault as text":                    {"", `{"error_message": "{\"faultstring\": \"Node n1 could not be found.\"}"}`, ErrNotFound},
		"bare fault":                       {"", `{"faultstring": ""}`, ErrNotFound},
		"no body, with a version":          {"X-OpenStack-Ironic-API-Version", "", ErrNotFound},
		"no body, with a standard version": {"OpenStack-API-Version", "", ErrNotFound},
		"ingress without a backend":        {"", "default backend - 404", ErrProtocol},
		"nginx":                            {"", "<html><body>404 Not Found</body></html>", ErrProtocol},
		"gateway without a route":          {"", `{"message": "no Route matched with those values"}`, ErrProtocol},
		"no body":                          {"", "", ErrProtocol},
		"list":                             {"", `[{"faultstring": "x"}]`, ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			_, client := newFakeEngine(t, func(f *fakeEngine) {
				f.override = func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path == "/v1/" {
						return false
					}
					if test.header != "" {
						w.Header().Set(test.header, "1.84")
					}
					w.WriteHeader(http.StatusNotFound)
					_, _ = io.WriteString(w, test.body)
					return true
				}
			})
			_, err := client.Node(t.Context(), "n1")
			if !errors.Is(err, test.want) || Retryable(err) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if errors.Is(test.want, ErrProtocol) && !strings.Contains(err.Error(), "proxies") {
				t.Errorf("%v does not say what to check", err)
			}
		})
	}
}

func TestEngineThatDoesNotAnswerIsUnreachable(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)

	for name, test := range map[string]struct {
		endpoint, want string
		timeout        time.Duration
	}{
		"nobody listens":        {closed.URL, "connection refused", 0},
		"nobody answers":        {"http://" + silent.Addr().String(), "no answer in time", 50 * time.Millisecond},
		"unknown authority":     {secure.URL, "certificate is not trusted", 0},
		"TLS where there is no": {strings.Replace(serve(t, http.NotFoundHandler()), "http:", "https:", 1), "does not use TLS", 0},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := New(Options{Endpoint: test.endpoint, Timeout: test.timeout})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Node(t.Context(), "n1")
			if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want unreachable with %q", err, test.want)
			}
		})
	}
}

func TestEndOfTheCallersContextIsNotTheEnginesFault(t *testing.T) {
	_, client := newFakeEngine(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.Node(ctx, "n1")
	var e *Error
	if !errors.Is(err, context.Canceled) || errors.As(err, &e) {
		t.Errorf("got %v, want only context.Canceled", err)
	}
}
