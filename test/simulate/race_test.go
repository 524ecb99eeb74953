//go:build race

package simulate

// raceDetector says that this program was built with the race detector, which starts
// goroutines in random order.
const raceDetector = true
