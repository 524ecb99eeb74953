package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

const way = time.Millisecond

func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// sleep waits with package time, which synctest replaces.
func sleep(d time.Duration) error {
	<-time.After(d)
	return nil
}

// arrival is a piece, and when it came.
type arrival struct {
	text  string
	after time.Duration
}

// arrivals records what is written.
type arrivals struct {
	start time.Time
	seen  []arrival
}

func (a *arrivals) Write(p []byte) (int, error) {
	a.seen = append(a.seen, arrival{string(p), time.Since(a.start)})
	return len(p), nil
}

func TestEachPieceArrivesOneWayLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		out := &arrivals{start: time.Now()}
		go func() {
			defer near.Close()
			for _, text := range []string{"a", "b", "c"} {
				if _, err := near.Write([]byte(text)); err != nil {
					t.Error(err)
				}
				<-time.After(way / 4)
			}
		}()
		if err := carry(out, far, always(way), sleep); err != nil {
			t.Fatal(err)
		}
		want := []arrival{{"a", way}, {"b", way + way/4}, {"c", way + way/2}}
		if len(out.seen) != len(want) {
			t.Fatalf("got %v, want %v", out.seen, want)
		}
		for i := range want {
			if out.seen[i] != want[i] {
				t.Errorf("piece %d is %v, want %v", i, out.seen[i], want[i])
			}
		}
	})
}

func TestManyPiecesTakeNoLongerThanOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		out := &arrivals{start: time.Now()}
		const count = 1000
		go func() {
			defer near.Close()
			for i := range count {
				if _, err := near.Write([]byte{byte(i)}); err != nil {
					t.Error(err)
				}
			}
		}()
		if err := carry(out, far, always(way), sleep); err != nil {
			t.Fatal(err)
		}
		if len(out.seen) != count || out.seen[count-1].after != way {
			t.Fatalf("%d pieces, the last after %s, want %d after %s", len(out.seen), out.seen[len(out.seen)-1].after, count, way)
		}
		for i, a := range out.seen {
			if a.text != string([]byte{byte(i)}) {
				t.Fatalf("piece %d is %q", i, a.text)
			}
		}
	})
}

func TestDelayTimerWaitsAsLongAsAskedEachTime(t *testing.T) {
	timer, err := newDelayTimer()
	if err != nil {
		t.Fatal(err)
	}
	defer timer.close()
	for _, d := range []time.Duration{way / 4, way, 1} {
		start := time.Now()
		if err := timer.wait(d); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < d {
			t.Errorf("waited for %s, want %s at least", took, d)
		}
	}
}

func TestPiecesStayInOrderWhenTheWayBecomesShorter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		var out bytes.Buffer
		delays := []time.Duration{4 * way, 0, way}
		next := 0
		go func() {
			defer near.Close()
			for _, text := range []string{"a", "b", "c"} {
				_, _ = near.Write([]byte(text))
			}
		}()
		err := carry(&out, far, func() time.Duration { next++; return delays[next-1] }, sleep)
		if err != nil || out.String() != "abc" {
			t.Errorf("got %q, %v, want abc", out.String(), err)
		}
	})
}

func TestCarryEndsWhenNobodyTakesWhatArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		defer near.Close()
		gone, taker := net.Pipe()
		gone.Close()
		go func() { _, _ = near.Write([]byte("a")) }()
		if err := carry(taker, far, always(way), sleep); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v, want that the pipe is closed", err)
		}
	})
}

func TestProxyPassesBothWaysUntilItIsClosed(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		_, _ = io.Copy(conn, conn)
	}()
	p, err := startProxy(t.Context(), server.Addr().String(), way)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", p.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	start := time.Now()
	if _, err := conn.Write([]byte("there and back")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, len("there and back"))
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "there and back" {
		t.Fatalf("got %q, %v", answer, err)
	}
	if took := time.Since(start); took < 2*way {
		t.Errorf("came back after %s, want %s at least", took, 2*way)
	}
	p.close()
	if _, err := conn.Read(answer); err == nil {
		t.Error("the connection is open after the proxy was closed")
	}
}

func TestURLLeadsThroughTheProxy(t *testing.T) {
	p, err := startProxy(t.Context(), "127.0.0.1:1", way)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	got, err := p.through("postgres://ingot:secret@127.0.0.1:5432/postgres")
	want := "postgres://ingot:secret@" + p.listener.Addr().String() + "/postgres?sslmode=disable"
	if err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
