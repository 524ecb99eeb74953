package reload

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// world is a file, the value made from it and a clock that the test moves.
type world struct {
	t     *testing.T
	path  string
	now   time.Time
	loads int
	log   bytes.Buffer
	value *Value[string]

	failing error // of every load, until the test takes it away
}

// newWorld holds a file that was written long ago.
func newWorld(t *testing.T, content string) *world {
	t.Helper()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "file"), now: time.Now()}
	w.write(content, time.Hour)
	value, err := New("the file", []string{w.path}, func() (string, error) {
		w.loads++
		if w.failing != nil {
			return "", w.failing
		}
		text, err := os.ReadFile(w.path)
		if err == nil && strings.Contains(string(text), "broken") {
			return "", errors.New("line 1: broken")
		}
		return string(text), err
	}, slog.New(slog.NewTextHandler(&w.log, nil)), func() time.Time { return w.now })
	if err != nil {
		t.Fatal(err)
	}
	w.value = value
	return w
}

// write replaces the content in place and says that this was some time ago.
func (w *world) write(content string, ago time.Duration) {
	w.t.Helper()
	if err := os.WriteFile(w.path, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
	modified := w.now.Add(-ago)
	if err := os.Chtimes(w.path, modified, modified); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) want(content string) {
	w.t.Helper()
	if got := w.value.Get(); got != content {
		w.t.Errorf("got %q, want %q", got, content)
	}
}

func TestUnchangedFileIsReadOnce(t *testing.T) {
	w := newWorld(t, "a")
	for range 10 {
		w.now = w.now.Add(time.Minute)
		w.want("a")
	}
	if w.loads != 1 {
		t.Errorf("read %d times, want 1", w.loads)
	}
}

func TestChangeIsSeenAfterASecond(t *testing.T) {
	w := newWorld(t, "a")
	w.write("b", time.Minute)
	w.want("a")
	w.now = w.now.Add(interval - 1)
	w.want("a")
	w.now = w.now.Add(1)
	w.want("b")
}

func TestReplacedFileIsSeenThoughSizeAndTimeAreTheSame(t *testing.T) {
	w := newWorld(t, "a")
	other := filepath.Join(filepath.Dir(w.path), "other")
	if err := os.WriteFile(other, []byte("b"), 0o600); err != nil {
		t.Fatal(err)
	}
	modified := w.now.Add(-time.Hour)
	if err := os.Chtimes(other, modified, modified); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, w.path); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(interval)
	w.want("b")
}

func TestYoungFileIsReadUntilItsTimeTells(t *testing.T) {
	w := newWorld(t, "a")
	written := w.now.Add(interval)
	w.now = written
	w.write("b", 0)
	w.want("b")
	w.write("c", 0) // in place, same size, within the step of the file system's clock
	w.now = written.Add(interval)
	if err := os.Chtimes(w.path, written, written); err != nil {
		t.Fatal(err)
	}
	w.want("c")
	loads := w.loads
	for range 10 {
		w.now = w.now.Add(time.Minute)
		w.want("c")
	}
	if w.loads > loads+1 {
		t.Errorf("read %d times more although nothing changed", w.loads-loads)
	}
}

func TestSpoiledFileChangesNothingAndIsLoggedOnce(t *testing.T) {
	for name, spoil := range map[string]func(w *world){
		"broken": func(w *world) { w.write("broken", time.Minute) },
		"removed": func(w *world) {
			if err := os.Remove(w.path); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			spoil(w)
			for range 10 {
				w.now = w.now.Add(time.Minute)
				w.want("a")
			}
			if count := strings.Count(w.log.String(), "level=ERROR"); count != 1 {
				t.Errorf("logged %d errors, want 1:\n%s", count, w.log.String())
			}
			w.write("b", time.Minute)
			w.now = w.now.Add(time.Minute)
			w.want("b")
		})
	}
}

func TestFileThatCouldNotBeReadForAMomentIsReadAgain(t *testing.T) {
	w := newWorld(t, "a")
	w.write("b", time.Minute)
	w.failing = errors.New("too many open files")
	for range 3 {
		w.now = w.now.Add(interval)
		w.want("a")
	}
	w.failing = nil
	w.now = w.now.Add(interval)
	w.want("b")
	loads := w.loads
	w.now = w.now.Add(interval)
	w.want("b")
	if w.loads != loads {
		t.Error("read again although nothing changed since it was read")
	}
	if errs, reads := strings.Count(w.log.String(), "level=ERROR"), strings.Count(w.log.String(), "Read a changed file"); errs != 1 || reads != 1 {
		t.Errorf("logged %d errors and %d reads, want one of each:\n%s", errs, reads, w.log.String())
	}
}

func TestChangeIsSeenThoughTheClockWasSetBack(t *testing.T) {
	w := newWorld(t, "a")
	w.now = w.now.Add(-24 * time.Hour)
	w.write("b", time.Minute)
	w.want("b")
	w.write("c", time.Hour)
	w.now = w.now.Add(interval)
	w.want("c")
}

func TestFirstLoadMustSucceed(t *testing.T) {
	_, err := New("the file", []string{"x"}, func() (string, error) { return "", errors.New("no good") }, slog.Default(), time.Now)
	if err == nil || err.Error() != "read the file: no good" {
		t.Errorf("got %v", err)
	}
}

func TestReadersDoNotWaitForALoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	var clock atomic.Int64
	clock.Store(time.Now().Add(time.Hour).UnixNano())
	loading, release := make(chan struct{}), make(chan struct{})
	first := true
	v, err := New("the file", []string{path}, func() (string, error) {
		if first {
			first = false
			return "old", nil
		}
		close(loading)
		<-release
		return "new", nil
	}, slog.New(slog.DiscardHandler), func() time.Time { return time.Unix(0, clock.Load()) })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock.Add(int64(interval))
	done := make(chan string)
	go func() { done <- v.Get() }()
	<-loading
	clock.Add(int64(interval))
	if got := v.Get(); got != "old" {
		t.Errorf("got %q, want the value before the change", got)
	}
	close(release)
	if got := <-done; got != "new" {
		t.Errorf("got %q, want the value of the load", got)
	}
}
