package hardware_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/hardware"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

func TestReadingsKnowOnlyWhatWasReadAfterTheLastInspection(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	inv := demo.SampleInventory("web")
	details := hardware.Details(&inv)
	known := hardware.NewReadings()
	known.Put("n1", at, details)

	text, err := json.Marshal(details) // as it is in an annotation
	if err != nil {
		t.Fatal(err)
	}
	var copied, forged v1alpha1.HardwareDetails
	for _, target := range []*v1alpha1.HardwareDetails{&copied, &forged} {
		if err := json.Unmarshal(text, target); err != nil {
			t.Fatal(err)
		}
	}
	forged.RAMMebibytes++
	for name, tt := range map[string]struct {
		node    string
		at      time.Time
		details *v1alpha1.HardwareDetails
		want    bool
	}{
		"the same":         {"n1", at, &copied, true},
		"forged":           {"n1", at, &forged, false},
		"none":             {"n1", at, nil, false},
		"another node":     {"n2", at, &copied, false},
		"inspected since":  {"n1", at.Add(time.Second), &copied, false},
		"time not told of": {"n1", time.Time{}, &copied, false},
	} {
		if got := known.Has(tt.node, tt.at, tt.details); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestReadingsAreBounded(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	known, details, left := hardware.NewReadings(), &v1alpha1.HardwareDetails{}, 0
	const all = 1<<14 + 100
	for i := range all {
		known.Put(fmt.Sprint(i), at, details)
	}
	for i := range all {
		if known.Has(fmt.Sprint(i), at, details) {
			left++
		}
	}
	if left != 1<<14 {
		t.Errorf("%d machines are remembered, want %d", left, 1<<14)
	}
}
