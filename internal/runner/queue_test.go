package runner

import (
	"slices"
	"testing"

	"github.com/ingot-metal/ingot/internal/store"
)

func TestFullLaneKeepsNoOtherFromBeingClaimed(t *testing.T) {
	q := newQueue(func(kind store.WorkKind) lane {
		if kind == "hooks" {
			return processorLane
		}
		return machineLane
	})
	now := noon
	want := func(what string, want ...lane) {
		t.Helper()
		if got := q.lanesToFill(now); !slices.Equal(got, want) {
			t.Errorf("%s: lanes %v are to be filled, want %v", what, got, want)
		}
	}
	fill := func(kind store.WorkKind) {
		for range claimBatch {
			q.push(&Job{work: &store.Work{Kind: kind}})
		}
	}
	want("empty", machineLane, processorLane)
	want("empty, at once again", machineLane, processorLane)
	fill("power")
	want("machines hang", processorLane)
	want("machines hang, at once again")
	now = now.Add(someLanesPoll)
	want("machines hang, later", processorLane)
	fill("hooks")
	now = now.Add(someLanesPoll)
	want("full")
	q.pop(machineLane)
	now = now.Add(someLanesPoll)
	want("a machine answered", machineLane)
	q.pop(processorLane)
	want("both have room", machineLane, processorLane)
}
