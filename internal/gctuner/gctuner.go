// Package gctuner sets how often the garbage collector runs.
//
// Go initializes packages in the order of their import paths, as far as their imports permit
// (https://go.dev/ref/spec#Program_initialization). This package imports little, so it comes before
// the packages that allocate most of what the initialization needs.
package gctuner

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// firstPercent lets the heap grow to 16 MB before the first collection, because the runtime begins
// with 4 MB for 100 percent. The initialization of all packages allocates 5 MB: with 100 percent,
// every command would collect twice before it begins, which takes a sixth of the time of a short
// one.
const firstPercent = 400

// Percentages by which the heap may grow after a collection. The second is for programs that call
// FavorSpeed, while their heap is small.
const (
	usualPercent     = 100
	smallHeapPercent = 200
	smallHeap        = 16 << 20 // live bytes
)

var speedFavored atomic.Bool

// An environment variable GOGC has the last word, as usual.
func init() { //nolint:gochecknoinits // what this package changes is the initialization itself
	if os.Getenv("GOGC") == "" {
		tune()
	}
}

// FavorSpeed lets the collector run less often from the next collection on, while the program has
// little live heap. An engine has 6 MB while machines enrol: its heap grows to 20 MB instead of 13,
// which saves a tenth of the CPU time. While many machines are deployed at once it would cost 100
// MB.
func FavorSpeed() { speedFavored.Store(true) }

// tune sets firstPercent now and gcPercent soon after each collection, until the program ends.
func tune() {
	percent := firstPercent
	debug.SetGCPercent(percent)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var afterCollection func(*marker)
	afterCollection = func(m *marker) {
		metrics.Read(live)
		if wanted := gcPercent(live[0].Value.Uint64()); wanted != percent {
			percent = wanted
			debug.SetGCPercent(percent)
		}
		runtime.SetFinalizer(m, afterCollection)
	}
	runtime.SetFinalizer(&marker{}, afterCollection)
}

func gcPercent(live uint64) int {
	if speedFavored.Load() && live <= smallHeap {
		return smallHeapPercent
	}
	return usualPercent
}

// marker is an object that nothing refers to, so each collection finds it. It has a pointer,
// because the runtime allocates objects without pointers together with others.
type marker struct{ _ *byte }
