package gctuner

const (
	SmallHeap        = smallHeap
	SmallHeapPercent = smallHeapPercent
	LargeHeapPercent = largeHeapPercent
)

var GCPercent = gcPercent
