// Package reload loads a value from files, such as users or a certificate, and loads it again when
// the files change, without a restart. If a changed file is invalid, the last valid value stays in
// use, and the failure is logged.
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
	// interval is the shortest time between two checks of the files.
	interval = time.Second
	// timeResolution is the age from which the modification time of a file identifies its content.
	// File systems round times, the oldest ones to 2 s.
	timeResolution = 2 * time.Second
)

// Value is a value that is loaded from files. It is safe for concurrent use.
type Value[T any] struct {
	name  string
	paths []string
	load  func() (T, error)
	log   *slog.Logger
	now   func() time.Time

	current atomic.Pointer[T]
	checked atomic.Int64 // when the files were last checked, in Unix nanoseconds

	mu       sync.Mutex // held while the files are checked
	seen     []stamp    // stamps of the files when they were last loaded
	young    bool       // a file was too new for its stamp to identify it
	lastFail string     // the last load's failure, so that it is logged once; empty after success
}

// stamp identifies a version of a file.
type stamp struct {
	info     os.FileInfo // nil if the file cannot be read
	size     int64
	modified time.Time
}

// New loads the value for the first time and returns the error of load. The name is for the log.
// load reads the files at paths; it is called again after one of them has changed.
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

// Get returns the value of the files as they were at most a second ago. While one caller loads
// changed files, others get the old value.
func (v *Value[T]) Get() T {
	now := v.now()
	// A clock that was set back also triggers a check. Otherwise nothing would be read until the
	// clock has caught up.
	if since := time.Duration(now.UnixNano() - v.checked.Load()); since.Abs() >= interval && v.mu.TryLock() {
		v.refresh(now)
		v.mu.Unlock()
	}
	return *v.current.Load()
}

// refresh loads the value again if a file has changed, or could not be loaded.
func (v *Value[T]) refresh(now time.Time) {
	v.checked.Store(now.UnixNano())
	young := v.young
	changed := v.stamp(now)
	// The reason of a failed load may disappear without a change of the files.
	if !changed && !young && v.lastFail == "" {
		return
	}
	value, err := v.load()
	if err != nil {
		if text := err.Error(); text != v.lastFail {
			v.lastFail = text
			v.log.Error("Changed file is not valid, keeping the value that was read before", "what", v.name, "err", err)
		}
		return
	}
	v.current.Store(&value)
	if changed || v.lastFail != "" {
		v.log.Info("Read a changed file", "what", v.name)
	}
	v.lastFail = ""
}

// stamp records the versions of the files before they are read. It reports whether one has changed
// since the last time.
func (v *Value[T]) stamp(now time.Time) (changed bool) {
	stamps := make([]stamp, len(v.paths))
	v.young = false
	for i, path := range v.paths {
		if info, err := os.Stat(path); err == nil {
			stamps[i] = stamp{info: info, size: info.Size(), modified: info.ModTime()}
			v.young = v.young || now.Sub(info.ModTime()).Abs() < timeResolution
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
