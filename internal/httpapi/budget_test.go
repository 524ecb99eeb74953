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

// charged reads a body that a source sends, and runs then before it is given back.
func charged(b *bodyBudget, source ramdiskSource, limit int64, body string, then func()) error {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	defer b.charge(w, r, source)()
	_, err := readBody(w, r, limit)
	if then != nil {
		then()
	}
	return err
}

func TestASourceOfBodiesLeavesRoomForOthers(t *testing.T) {
	b := newBodyBudget(20, time.Now, slog.New(slog.DiscardHandler))
	flood, other := ramdiskSource{nodeUUID: "flood"}, ramdiskSource{nodeUUID: "other"}
	if err := charged(b, flood, 100, `"123456789"`, nil); !errors.Is(err, node.ErrBusy) {
		t.Errorf("a body over half of the budget: got %v, want busy", err)
	}
	for range 3 {
		err := charged(b, flood, 100, `"12345678"`, func() { // takes half of it
			if err := charged(b, flood, 100, `1`, nil); !errors.Is(err, node.ErrBusy) {
				t.Errorf("another body of the same source: got %v, want busy", err)
			}
			if err := charged(b, other, 100, `12345`, nil); err != nil {
				t.Errorf("a body of another source: %v", err)
			}
		})
		if err != nil {
			t.Errorf("a body that fits: %v", err)
		}
	}
	if b.free != 20 || len(b.taken) != 0 {
		t.Errorf("after all bodies %d bytes are free and %v taken, want 20 and none", b.free, b.taken)
	}
}

func TestManySourcesOfLargeBodiesLeaveRoomForSmallOnes(t *testing.T) {
	const size = 1 << 20
	b := newBodyBudget(size, time.Now, slog.New(slog.DiscardHandler))
	var flood func(source int)
	flood = func(source int) {
		if source == 40 { // while all the others hold what they could get
			if err := charged(b, ramdiskSource{nodeUUID: "small"}, size, strings.Repeat("1", size/128), nil); err != nil {
				t.Errorf("a small body beside %d sources: %v", source, err)
			}
			return
		}
		for _, part := range []int{2, 4, 8, 16, 32, 64} {
			name := ramdiskSource{nodeUUID: fmt.Sprint(source)}
			err := charged(b, name, size, strings.Repeat("1", size/part-1), func() {
				if b.taken[name] == int64(size/part-1) { // all of it fitted
					flood(source + 1)
				}
			})
			if err == nil {
				return
			}
		}
		flood(source + 1)
	}
	flood(0)
}

func TestALargeArrivingBodyGivesWayToASourceThatHoldsLess(t *testing.T) {
	b := newBodyBudget(200, time.Now, slog.New(slog.DiscardHandler))
	closed := ""
	arriving := func(name string, bytes int64) *budgetedBody {
		body := &budgetedBody{budget: b, source: ramdiskSource{nodeUUID: name}, began: b.now(), cut: func(time.Time) error {
			closed += name + " "
			return nil
		}}
		b.arriving[body] = true
		if bytes > 0 && !b.take(body, bytes) {
			t.Fatalf("%s got no room", name)
		}
		return body
	}
	arriving("most", 100)
	arriving("some", 40)
	if b.take(arriving("none", 0), 20) {
		t.Error("there was room")
	}
	if closed != "most " {
		t.Errorf("closed: %q, want the body of the source that holds most", closed)
	}
	closed = ""
	if b.take(arriving("some", 0), 60) || closed != "" {
		t.Errorf("a source that holds as much as any other closed %q", closed)
	}
}

func TestDroppedBodyTakesNothingOfTheBudget(t *testing.T) {
	b := newBodyBudget(10, time.Now, slog.New(slog.DiscardHandler))
	err := charged(b, ramdiskSource{}, 5, strings.Repeat(" ", 1000), func() {
		if b.free != 10 {
			t.Error("what was dropped is charged")
		}
	})
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
	b := newBodyBudget(200, func() time.Time { return time.Now().Add(time.Duration(elapsed.Load())) }, slog.New(slog.NewTextHandler(&log, nil)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer b.charge(w, r, ramdiskSource{})()
		if _, err := readBody(w, r, 1000); err != nil {
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
		for body := range b.arriving {
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
	if !strings.Contains(log.text(), "others found no room") {
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
