// Package gctuner sets how often the garbage collector runs. The program imports it for that alone.
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
)

// firstPercent delays the first collection until the heap has 16 MB: the runtime starts with a
// limit of 4 MB for 100 percent. The initialization of all packages allocates 5 MB, which no
// collection can free. Without its two collections every command starts in 17 ms instead of 21.
const firstPercent = 400

// The collector runs less often than by default while the program has little live heap: an engine
// has some 8 MB while machines enrol. That costs 3 MB of memory and saves a tenth of the CPU time.
// While many machines are deployed at once it would cost 100 MB.
const (
	smallHeap        = 16 << 20 // live bytes
	smallHeapPercent = 200
	largeHeapPercent = 100
)

// An environment variable GOGC has the last word, as usual.
func init() { //nolint:gochecknoinits // what this package changes is the initialization itself
	if os.Getenv("GOGC") == "" {
		tune()
	}
}

// tune sets firstPercent now and gcPercent after each collection, until the program ends.
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

// gcPercent returns how much the heap may grow after a collection, in percent of the live bytes.
func gcPercent(live uint64) int {
	if live <= smallHeap {
		return smallHeapPercent
	}
	return largeHeapPercent
}

// marker is an object that nothing refers to, so each collection finds it. It has a pointer,
// because the runtime allocates objects without pointers together with others.
type marker struct{ _ *byte }
