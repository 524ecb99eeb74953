package nodebackup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheLongestPairsOfTheFirstMapAreDroppedFirst(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		excess        int
		dropped       int
		first, second map[string]string
	}{
		"nothing has to go":   {0, 0, map[string]string{"a": "1", "b": "22", "c": "22"}, map[string]string{"d": "4444"}},
		"one has to go":       {1, 1, map[string]string{"a": "1", "c": "22"}, map[string]string{"d": "4444"}},
		"one is not enough":   {9, 2, map[string]string{"a": "1"}, map[string]string{"d": "4444"}},
		"a map is not enough": {24, 4, map[string]string{}, map[string]string{}},
		"all are not enough":  {100, 4, map[string]string{}, map[string]string{}},
	} {
		first, second := map[string]string{"a": "1", "b": "22", "c": "22"}, map[string]string{"d": "4444"}
		before := len(Encode(first)) + len(Encode(second))
		if dropped := Drop(tt.excess, first, second); dropped != tt.dropped {
			t.Errorf("%s: %d dropped, want %d", name, dropped, tt.dropped)
		}
		if diff := cmp.Diff([]map[string]string{tt.first, tt.second}, []map[string]string{first, second}); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		if shorter := before - len(Encode(first)) - len(Encode(second)); shorter < tt.excess && len(first)+len(second) > 0 {
			t.Errorf("%s: shorter by %d bytes, want %d", name, shorter, tt.excess)
		}
	}
}

func TestTheSecondOfTwoMergedMapsWins(t *testing.T) {
	t.Parallel()
	first, second := map[string]string{"a": "1", "b": "1"}, map[string]string{"b": "2"}
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "2"}, Merged(first, second)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if first["b"] != "1" || Merged(nil, nil) == nil {
		t.Errorf("the first map is %v; merged nothing is %v", first, Merged(nil, nil))
	}
}
