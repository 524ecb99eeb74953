package gctuner

const SmallHeap = smallHeap
