package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The garbage collector runs less often than by default while the program has little live heap:
// some 8 MB while machines enrol. That costs 3 MB of memory and saves a tenth of the CPU time.
// While many machines are deployed at once it would cost 100 MB.
const (
	smallHeap        = 16 << 20 // live bytes
	smallHeapPercent = 200
	largeHeapPercent = 100
)

// gcPercent returns how much the heap may grow, in percent of the live bytes.
func gcPercent(live uint64) int {
	if live <= smallHeap {
		return smallHeapPercent
	}
	return largeHeapPercent
}

// paceCollector applies gcPercent now and after each collection, until the program ends.
func paceCollector() {
	percent := smallHeapPercent
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

// marker is an object that nothing refers to, so each collection finds it. It has a pointer,
// because the runtime allocates objects without pointers together with others.
type marker struct{ _ *byte }
