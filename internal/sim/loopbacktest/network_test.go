package loopbacktest_test

import (
	"testing"

	"github.com/ingot-metal/ingot/internal/sim/loopbacktest"
)

func TestNoTwoNetworksThatAreInUseOverlap(t *testing.T) {
	first, second := loopbacktest.Network(t), loopbacktest.Network(t)
	if first.Overlaps(second) {
		t.Errorf("two tests have the networks %s and %s", first, second)
	}
}
