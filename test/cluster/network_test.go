package cluster

import "testing"

func TestNoTwoWorldsHaveOneNetwork(t *testing.T) {
	first, err := claimNetwork()
	if err != nil {
		t.Fatal(err)
	}
	second, err := claimNetwork()
	if err != nil {
		t.Fatal(err)
	}
	if first.Overlaps(second) {
		t.Errorf("two worlds have the networks %s and %s", first, second)
	}
}
