// Package reload keeps a value that was made from files, such as users or a
// certificate, as new as the files are. A change takes effect without a restart;
// one that spoils the files takes none: the last good value stays in use and the
// log says so.
package reload

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// interval is how often the files are looked at, at most.
	interval = time.Second
	// settled is the age from which the time of a file tells its content apart
	// from a later one. File systems count time in steps, the oldest of 2 s.
	settled = 2 * time.Second
)

// Value is a value made from files. It is safe for concurrent use.
type Value[T any] struct {
	name  string
	paths []string
	load  func() (T, error)
	log   *slog.Logger
	now   func() time.Time

	current atomic.Pointer[T]
	checked atomic.Int64 // when the files were last looked at, in Unix nanoseconds

	mu       sync.Mutex // held while the files are looked at
	seen     []stamp    // of the files as they were loaded last
	young    bool       // a file was too new for its stamp to be trusted
	lastFail string     // so that one fault is one line
}

// stamp tells whether a file is still the one it was.
type stamp struct {
	info     os.FileInfo // nil when the file cannot be looked at
	size     int64
	modified time.Time
}

// New loads the value for the first time; what is wrong then is an error. The
// name says in the log what is read. Load reads the files at paths and may be
// called whenever one of them has changed.
func New[T any](name string, paths []string, load func() (T, error), log *slog.Logger, now func() time.Time) (*Value[T], error) {
	v := &Value[T]{name: name, paths: paths, load: load, log: log, now: now}
	v.checked.Store(now().UnixNano())
	v.stamp(now())
	value, err := load()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	v.current.Store(&value)
	return v, nil
}

// Get returns the value of the files as they are, or were at most a second ago.
// While one caller reads changed files, others get the value before the change.
func (v *Value[T]) Get() T {
	now := v.now()
	if now.UnixNano()-v.checked.Load() >= int64(interval) && v.mu.TryLock() {
		v.refresh(now)
		v.mu.Unlock()
	}
	return *v.current.Load()
}

// refresh loads the value again if a file has changed.
func (v *Value[T]) refresh(now time.Time) {
	v.checked.Store(now.UnixNano())
	young := v.young
	changed := v.stamp(now)
	if !changed && !young {
		return
	}
	value, err := v.load()
	if err != nil {
		if text := err.Error(); text != v.lastFail {
			v.lastFail = text
			v.log.Error("Changed file is not usable, keeping what was read before", "what", v.name, "err", err)
		}
		return
	}
	v.lastFail = ""
	v.current.Store(&value)
	if changed {
		v.log.Info("Read a changed file", "what", v.name)
	}
}

// stamp looks at the files before they are read and reports whether one differs
// from the last time.
func (v *Value[T]) stamp(now time.Time) (changed bool) {
	stamps := make([]stamp, len(v.paths))
	v.young = false
	for i, path := range v.paths {
		if info, err := os.Stat(path); err == nil {
			stamps[i] = stamp{info: info, size: info.Size(), modified: info.ModTime()}
			v.young = v.young || now.Sub(info.ModTime()).Abs() < settled
		}
		changed = changed || v.seen == nil || !stamps[i].same(v.seen[i])
	}
	v.seen = stamps
	return changed
}

func (s stamp) same(other stamp) bool {
	if s.info == nil || other.info == nil {
		return s.info == nil && other.info == nil
	}
	return s.size == other.size && s.modified.Equal(other.modified) && os.SameFile(s.info, other.info)
}
