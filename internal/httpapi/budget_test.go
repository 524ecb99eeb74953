package httpapi

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestBodiesOfRamdisksShareABudget(t *testing.T) {
	b := newBodyBudget(10, time.Now, slog.New(slog.DiscardHandler))
	read := b.limit(func(w http.ResponseWriter, r *http.Request) error {
		_, err := readBody(w, r, 100)
		return err
	})
	post := func(body string) error {
		return read(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
	}
	if err := post(`"123456789012"`); !errors.Is(err, node.ErrBusy) {
		t.Errorf("a body over the budget: got %v, want busy", err)
	}
	for range 3 {
		if err := post(`"123456"`); err != nil {
			t.Errorf("a body within the budget: %v", err)
		}
	}
	nested := b.limit(func(w http.ResponseWriter, r *http.Request) error {
		if _, err := readBody(w, r, 100); err != nil {
			return err
		}
		return post(`"abcdef"`) // while the first request is being processed
	})
	err := nested(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`"123456"`)))
	if !errors.Is(err, node.ErrBusy) {
		t.Errorf("a second body while the first takes most of the budget: got %v, want busy", err)
	}
}

func TestDroppedBodyTakesNothingOfTheBudget(t *testing.T) {
	b := newBodyBudget(10, time.Now, slog.New(slog.DiscardHandler))
	refuse := b.limit(func(w http.ResponseWriter, r *http.Request) error {
		_, err := readBody(w, r, 5)
		if !b.free.TryAcquire(10) {
			t.Error("what was dropped is charged")
		}
		b.free.Release(10)
		return err
	})
	err := refuse(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat(" ", 1000))))
	var tooLarge *apiError
	if !errors.As(err, &tooLarge) || tooLarge.status != http.StatusRequestEntityTooLarge {
		t.Errorf("got %v, want it refused as too large", err)
	}
}

// TestSlowBodyIsClosedOnlyWhenOthersFindNoRoom has a client that sends most of what the
// budget allows and then nothing.
func TestSlowBodyIsClosedOnlyWhenOthersFindNoRoom(t *testing.T) {
	var elapsed atomic.Int64
	var log lockedText
	b := newBodyBudget(100, func() time.Time { return time.Now().Add(time.Duration(elapsed.Load())) }, slog.New(slog.NewTextHandler(&log, nil)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := b.limit(func(w http.ResponseWriter, r *http.Request) error {
			_, err := readBody(w, r, 1000)
			return err
		})(w, r); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	post := func(body string) int {
		answer, err := http.Post(server.URL, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	slow, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprintf(slow, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n%s", strings.Repeat(" ", 90))
	taken := func() (sum int64) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for body := range b.reading {
			sum += body.taken
		}
		return sum
	}
	for began := time.Now(); taken() < 90; {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the bytes do not arrive")
		}
	}
	elapsed.Store(int64(time.Hour))
	if got := post("{}"); got != http.StatusOK {
		t.Errorf("a body that fits: %d", got)
	}
	if log.text() != "" {
		t.Errorf("closed without need: %s", log.text())
	}
	large := `"` + strings.Repeat("x", 60) + `"`
	if got := post(large); got != http.StatusServiceUnavailable {
		t.Errorf("a body that does not fit: %d, want 503", got)
	}
	if _, err := io.ReadAll(slow); err != nil { // its end, which an answer may precede
		t.Errorf("the slow one: %v", err)
	}
	for began := time.Now(); post(large) != http.StatusOK; {
		if time.Since(began) > 10*time.Second {
			t.Fatal("there is no room after the slow one was closed")
		}
	}
	if !strings.Contains(log.text(), "too slowly") {
		t.Errorf("log %q", log.text())
	}
}

// lockedText is for loggers of several goroutines.
type lockedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedText) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
